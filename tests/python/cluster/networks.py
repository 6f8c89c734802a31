"""Machines of a Ray cluster as network namespaces, whose links can be cut: for tests, on Linux, as root.

    with Network(3) as network:
        network.run(0, ["ray", "start", "--head", ...])
        network.cut(2)
        network.heal(2)

Namespace 0 has the switch, and so the machine's own network is not touched. At the end all processes of the
namespaces are killed; a guard, this module as a program, does it if the test's process dies before. The
kernel removes links with their namespaces.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SWITCH = "switch"
# So long it may take until killed processes have ended, in seconds.
_SECONDS_TO_END = 20.0


class Network:
    """`size` namespaces on one switch. ``PermissionError`` where the machine does not allow that."""

    def __init__(self, size: int) -> None:
        if shutil.which("ip") is None:
            raise PermissionError("the program ip is not installed: apt-get install iproute2")
        self._guards: list[subprocess.Popen[str]] = []
        try:
            for _ in range(size):
                self._guards.append(_guard())
            self._join_up()
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()

    def address(self, place: int) -> str:
        return f"10.99.0.{place + 1}"

    def inside(self, place: int, command: list[str]) -> list[str]:
        """The command line that runs a command in a namespace."""
        return ["nsenter", f"--net=/proc/{self._guards[place].pid}/ns/net", "--", *command]

    def run(self, place: int, command: list[str], **options: Any) -> str:
        """Run a command in a namespace. Returns what it printed. AssertionError if it fails."""
        done = subprocess.run(
            self.inside(place, command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **options,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def cut(self, place: int) -> None:
        """Cut the link of a namespace. Its processes are not told: what they send is lost."""
        self.run(0, ["ip", "link", "set", f"port{place}", "nomaster"])

    def heal(self, place: int) -> None:
        self.run(0, ["ip", "link", "set", f"port{place}", "master", SWITCH])

    def processes(self, place: int) -> set[int]:
        """The processes of a namespace, but for its guard."""
        guard = self._guards[place].pid
        return _members(os.readlink(f"/proc/{guard}/ns/net")) - {guard}

    def end(self) -> None:
        """Kill all processes of the namespaces, which go with the last one. AssertionError if one stays."""
        for guard in self._guards:
            assert guard.stdin is not None
            guard.stdin.close()
        codes = [guard.wait(2 * _SECONDS_TO_END) for guard in self._guards]
        for guard in self._guards:
            assert guard.stdout is not None
            guard.stdout.close()
        self._guards = []
        assert not any(codes), "processes of a namespace could not be killed"

    def _join_up(self) -> None:
        self.run(0, ["ip", "link", "add", SWITCH, "type", "bridge"])
        self.run(0, ["ip", "addr", "add", f"{self.address(0)}/24", "dev", SWITCH])
        for place, guard in enumerate(self._guards):
            self.run(place, ["ip", "link", "set", "lo", "up"])
            if place:
                peer = ["peer", "name", "eth0", "netns", str(guard.pid)]
                self.run(0, ["ip", "link", "add", f"port{place}", "type", "veth", *peer])
                self.run(0, ["ip", "link", "set", f"port{place}", "up", "master", SWITCH])
                self.run(place, ["ip", "addr", "add", f"{self.address(place)}/24", "dev", "eth0"])
                self.run(place, ["ip", "link", "set", "eth0", "up"])
        self.run(0, ["ip", "link", "set", SWITCH, "up"])


def _guard() -> subprocess.Popen[str]:
    command = ["unshare", "--net", sys.executable, str(Path(__file__).resolve())]
    try:
        guard = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise PermissionError(str(error)) from None
    assert guard.stdin is not None
    assert guard.stdout is not None
    if guard.stdout.readline() != "ready\n":
        guard.stdin.close()
        guard.stdout.close()
        guard.wait()
        raise PermissionError("unshare --net failed")
    return guard


def _members(namespace: str) -> set[int]:
    """The processes that are in a network namespace, zombies left out."""
    found = set()
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.readlink(process / "ns/net") == namespace:
                found.add(int(process.name))
        except OSError:
            continue  # it has ended meanwhile, or is a zombie
    return found


def _guard_namespace() -> int:
    """The guard: wait until the test's process closes the pipe, or has ended, and leave nothing running."""
    print("ready", flush=True)
    sys.stdin.read()
    own = os.readlink("/proc/self/ns/net")
    until = time.monotonic() + _SECONDS_TO_END
    while left := _members(own) - {os.getpid()}:
        if time.monotonic() > until:
            return 1
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    return 0


if __name__ == "__main__":
    sys.exit(_guard_namespace())
