"""A Ray cluster of three nodes, each in a network namespace of its own, whose links are cut and healed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import support
from networks import Network

pytest.importorskip("ray", reason="Ray is not installed: python -m pip install ray cloudpickle")

PORT = 6379
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A busy machine takes its time to start the processes of a node.
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_agent_register_timeout_ms": "100000",
    # Ray declares a node dead that does not answer for four times 1.5 s.
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1500",
    "RAY_health_check_failure_threshold": "4",
}
TASKS = 60
DEAD_AFTER = 6.0  # seconds without an answer, at the earliest
PORTS = ("dashboard-agent-listen", "dashboard-agent-grpc", "runtime-env-agent", "metrics-export")
# For how many seconds a node's agent may be cut off. Node 1 learns by its healing that it was given up.
SILENCE = {1: "60", 2: "8"}


class Driver:
    """The program of network_driver.py in namespace 0."""

    def __init__(self, network: Network) -> None:
        own = network.address(0)
        program = [sys.executable, str(Path(__file__).with_name("network_driver.py")), f"{own}:{PORT}", own]
        self._process = subprocess.Popen(
            network.inside(0, program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **SETTINGS},
        )

    def ask(self, *what: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the driver has ended"
        return json.loads(line)

    def end(self) -> int:
        """Let the program end in good order. Returns its status."""
        self._process.communicate(timeout=support.DEADLINE)
        return self._process.returncode

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def start_ray(network: Network, place: int, folder: str) -> None:
    command = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus=1"]
    # Ports that are given need not be found out: each namespace has all of them.
    command += [f"--{name}-port={port}" for port, name in enumerate(PORTS, 20001)]
    command += [f"--node-ip-address={network.address(place)}", "--object-store-memory=100000000"]
    if place == 0:
        command += ["--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={folder}"]
    else:
        command += [f"--address={network.address(0)}:{PORT}"]
    silence = {"FORKLIFT_RAY_SILENCE": SILENCE.get(place, "")}
    network.run(place, command, env={**os.environ, **SETTINGS, **silence})


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        made = Network(3)
    except PermissionError as error:
        pytest.skip(f"this machine does not let us make network namespaces: {error}")
    folder = tempfile.mkdtemp(prefix="ray")  # a short name: Ray makes sockets in it
    try:
        for place in range(3):
            start_ray(made, place, folder)
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


LOST = """
import os, signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
from networks import Network
network = Network(2)
sleeper = subprocess.Popen(network.inside(1, ["sh", "-c", "echo; exec sleep 300"]), stdout=subprocess.PIPE)
sleeper.stdout.readline()  # it is in the namespace
print(sleeper.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_test_leaves_no_process_in_a_namespace() -> None:
    try:
        Network(1).end()
    except PermissionError as error:
        pytest.skip(f"this machine does not let us make network namespaces: {error}")
    program = [sys.executable, "-c", LOST, str(Path(__file__).parent)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=support.DEADLINE, check=False)
    sleeper = Path(f"/proc/{int(done.stdout)}")
    support.until(lambda: not sleeper.exists(), "the process ends")


@pytest.fixture
def driver(network: Network) -> Iterator[Driver]:
    made = Driver(network)
    try:
        yield made
    finally:
        made.kill()


def beginnings(folder: Path) -> Counter[int]:
    """How many tasks each process has begun."""
    return Counter(int(pid) for file in folder.iterdir() for pid in file.read_text().split())


def runs(folder: Path) -> list[int]:
    return [len(file.read_text().split()) for file in folder.iterdir()]


def of_forklift(network: Network, place: int) -> set[int]:
    """The processes in a namespace that have Forklift loaded."""
    found = set()
    for pid in network.processes(place):
        try:
            if "forklift" in Path(f"/proc/{pid}/maps").read_text():
                found.add(pid)
        except OSError:
            continue
    return found


def cut_while_tasks_run(
    network: Network, driver: Driver, folder: Path, pids: dict[int, list[int]], places: list[int]
) -> None:
    """Begin tasks, and cut the links of these nodes while each node runs one."""
    folder.mkdir()
    driver.ask("begin", str(folder), TASKS, 0.05)
    for each in pids.values():
        support.until(lambda each=each: sum(beginnings(folder)[pid] for pid in each), "all nodes run a task")
    for place in places:
        network.cut(place)
    Path(f"{folder}.go").touch()


@pytest.mark.slow
@pytest.mark.weekly
def test_a_network_that_is_cut_and_healed(network: Network, driver: Driver, tmp_path: Path) -> None:
    def ready() -> dict[int, list[int]] | None:
        nodes = driver.ask("nodes")
        states = [state for state, _ in nodes.values()]
        pids = {place: nodes.get(network.address(place), ("", []))[1] for place in range(3)}
        return pids if states == ["ready"] * 3 and all(len(each) == 2 for each in pids.values()) else None

    pids = support.until(ready, "three nodes are ready")

    # For a shorter time than Ray's health check takes: the node stays, and no task runs twice.
    folder = tmp_path / "short"
    cut_while_tasks_run(network, driver, folder, pids, [2])
    since = time.monotonic()
    support.until(lambda: len(runs(folder)) > TASKS - 5, "the other nodes go on")
    network.heal(2)
    assert time.monotonic() - since < DEAD_AFTER
    assert driver.ask("end") == [list(range(TASKS)), [1] * TASKS]
    assert runs(folder) == [1] * TASKS
    assert ready() == pids

    # For longer: the tasks run elsewhere, and the pool goes on without the nodes.
    folder = tmp_path / "long"
    cut_while_tasks_run(network, driver, folder, pids, [1, 2])
    assert driver.ask("end") == [list(range(TASKS)), [1] * TASKS]
    assert max(runs(folder)) == 2
    # An agent may be lost before its node is: the pool tries to start another until Ray gives the node up.
    support.until(lambda: list(driver.ask("nodes")) == [network.address(0)], "both nodes are given up")
    # Nothing is left on a node that learns of it when it is healed, nor on one that stays cut.
    network.heal(1)
    support.until(lambda: not of_forklift(network, 1), "the agent of the healed node ends")
    support.until(lambda: not of_forklift(network, 2), "the agent of the cut node ends")
    assert driver.end() == 0
