"""The command ``forklift trace``: what it takes, what it writes, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

from forklift import trace

__all__ = ["announce", "main"]

_USAGE = (
    "usage: forklift trace [-o FILE] [--html FILE] [--only CATEGORIES] [--most EVENTS]\n"
    "                      ([-m MODULE | -c CODE | SCRIPT] [ARGUMENT ...] | --attach PID|NAME [--seconds S])"
)
_HELP = f"""{_USAGE}

Records what the threads of a program do, and writes it for Perfetto, or as a page.

  SCRIPT, -m, -c      runs the program on Forklift, as `python -m forklift` does, and records all of it
  --attach PID|NAME   records a running program; --seconds S of it, 10 by default, or until interrupted
  -o FILE             the trace for https://ui.perfetto.dev and trace_processor; by default trace.pftrace
  --html FILE         a report for a browser, complete in itself
  --only CATEGORIES   of messages,waits,locks,memory,tasks,ranges; all by default
  --most EVENTS       keeps so many, 50 million by default; of 40 bytes each

Exit code: that of the program; with --attach 0; 1 where nothing could be recorded, 2 for a wrong command."""
_ANNOUNCE = "--announce-to"  # before a program: the descriptor of a socket that wants its control segment


class _Options:
    def __init__(self, arguments: list[str]) -> None:
        self.trace = self.html = self.attach = ""
        self.only: str | None = None
        self.seconds = 10.0
        self.most = 50_000_000
        self.program: list[str] = []
        rest = list(arguments)
        while rest and not self.program:
            option = rest.pop(0)
            if option in ("-o", "--output") and rest:
                self.trace = rest.pop(0)
            elif option == "--html" and rest:
                self.html = rest.pop(0)
            elif option == "--only" and rest:
                self.only = rest.pop(0)
            elif option == "--most" and rest:
                self.most = int(rest.pop(0))
            elif option == "--attach" and rest:
                self.attach = rest.pop(0)
            elif option == "--seconds" and rest:
                self.seconds = float(rest.pop(0))
            elif option.startswith("--") or option == "-o":
                raise ValueError(f"unknown option {option!r}, or one without its value")
            else:
                self.program = [option, *rest]
        if bool(self.attach) == bool(self.program):
            raise ValueError("give a program, or --attach with a process")
        if not self.seconds > 0 or self.most <= 0:
            raise ValueError("--seconds and --most are more than 0")
        trace.mask_of(self.only)
        if not self.trace and not self.html:
            self.trace = "trace.pftrace"


def main(arguments: list[str]) -> int:
    """Run the command. Returns its exit code."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(_HELP)
        return 0
    try:
        options = _Options(arguments)
    except ValueError as error:
        print(f"forklift trace: {error}\n{_USAGE}", file=sys.stderr)
        return 2
    try:
        return _attach(options) if options.attach else _run(options)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"forklift trace: {error}", file=sys.stderr)
        return 1


def _attach(options: _Options) -> int:
    from forklift.cli.programs import pid_of

    pid = pid_of(options.attach)
    # An interrupt ends the recording, whenever it comes; a second one ends the writing.
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        collector = trace.record(pid, categories=options.only, most=options.most)
        print(
            f"forklift trace: recording process {pid} for {options.seconds:g} s; Ctrl-C ends it",
            file=sys.stderr,
            flush=True,
        )
        if interrupted.wait(options.seconds):
            print(file=sys.stderr)
    finally:
        signal.signal(signal.SIGINT, before)
    _write(options, collector.stop())
    return 0


def _run(options: _Options) -> int:
    """Run the program as a child, which sends its control segment before it begins."""
    own, its = socket.socketpair()
    with own:
        with its:
            command = [sys.executable, "-m", "forklift", _ANNOUNCE, str(its.fileno()), *options.program]
            environment = os.environ | {"FORKLIFT_TRACE": "1"}
            program = subprocess.Popen(command, env=environment, pass_fds=(its.fileno(),))
        collector = _collector_of(own, options)
    code = _wait_for(program)
    if collector is None:
        print("forklift trace: the program ended before it began: nothing was recorded", file=sys.stderr)
        return code or 1
    _write(options, collector.stop())
    return code


def _collector_of(own: socket.socket, options: _Options) -> Any:
    _, descriptors, _, _ = socket.recv_fds(own, 1, 1)
    if not descriptors:
        return None
    try:
        recorder = trace.recorder_of(descriptors[0], options.only, options.most)
    finally:
        os.close(descriptors[0])
    return trace.Collector(recorder)


def _wait_for(program: subprocess.Popen[bytes]) -> int:
    """Wait for the end. An interrupt goes to the program as well: it decides."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = program.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _write(options: _Options, recorded: trace.Recorded) -> None:
    lost = sum(recording.lost for recording in recorded.recordings)
    events = sum(recording.events for recording in recorded.recordings)
    written = []
    if options.trace:
        written += recorded.write(options.trace)
    if options.html:
        written += recorded.report(options.html, " ".join(options.program) or f"process {options.attach}")
    also = f", {lost:,} more were lost" if lost else ""
    print(f"forklift trace: {events:,} events{also}: {', '.join(written)}", file=sys.stderr)


def announce(descriptor: int) -> None:
    """In the program, before it begins: make its domain and send its control segment to who records."""
    from forklift import _core

    with socket.socket(fileno=descriptor) as who:
        os.set_inheritable(descriptor, False)
        socket.send_fds(who, [b"c"], [_core.control_descriptor()])
    # Programs that this one starts are not part of the recording.
    os.environ.pop("FORKLIFT_TRACE", None)
