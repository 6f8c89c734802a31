"""The command: what it takes, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import asdict

from forklift.cli.top.sampling import Sampler
from forklift.cli.top.tables import as_text

__all__ = ["main"]

_USAGE = (
    "usage: forklift top [PID | NAME] [--once [--json]] [--seconds S] [--filter TEXT] [--tasks]\n"
    "                    [--prometheus PORT]"
)
_HELP = f"""{_USAGE}

Shows the processes of a running program, its queues, topics, pools, locks and memory.

  PID | NAME         any process of it, or the name that it serves; without: the one program there is
  --once             print once, and end; rates are over --seconds
  --json             with --once: for programs
  --seconds S        how often to look, 2 by default
  --filter TEXT      only rows with this text
  --tasks            how long the pools' tasks take, too, which they then record (some 0.1 us a task)
  --prometheus PORT  serve the numbers at http://127.0.0.1:PORT/metrics until interrupted; 0: any port

The screen needs textual (python -m pip install textual). Everything is read from shared memory and
/proc; nobody is asked or stopped.

Exit code: 1 where the program cannot be looked at, 2 for a wrong command."""


class _Options:
    def __init__(self, arguments: list[str]) -> None:
        self.who = ""
        self.once = self.json = self.tasks = False
        self.seconds = 2.0
        self.pattern = ""
        self.port = -1
        rest = list(arguments)
        while rest:
            option = rest.pop(0)
            if option == "--once":
                self.once = True
            elif option == "--json":
                self.json = True
            elif option == "--tasks":
                self.tasks = True
            elif option == "--seconds" and rest:
                self.seconds = float(rest.pop(0))
            elif option == "--filter" and rest:
                self.pattern = rest.pop(0)
            elif option == "--prometheus" and rest:
                self.port = int(rest.pop(0))
            elif option.startswith("-") or self.who:
                raise ValueError(f"unknown option {option!r}")
            else:
                self.who = option
        if not self.seconds > 0 or (self.json and not self.once):
            raise ValueError("--seconds is more than 0, and --json goes with --once")


def main(arguments: list[str]) -> int:
    """Run the command. Returns its exit code."""
    if set(arguments) & {"-h", "--help"}:
        print(_HELP)
        return 0
    try:
        options = _Options(arguments)
    except ValueError as error:
        print(f"forklift top: {error}\n{_USAGE}", file=sys.stderr)
        return 2
    try:
        return _run(options)
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 0
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        print(f"forklift top: {error}", file=sys.stderr)
        return 1


def _run(options: _Options) -> int:
    from forklift.cli.programs import pid_of

    sampler = Sampler(pid_of(options.who), options.tasks)
    if options.port >= 0:
        from forklift.cli.top.metrics import serve

        with serve(sampler, options.port) as server:
            print(f"http://127.0.0.1:{server.server_address[1]}/metrics", flush=True)
            server.serve_forever()
        return 0
    if options.once or not sys.stdout.isatty():
        return _print_once(sampler, options)
    try:
        from forklift.cli.top.screen import Screen
    except ImportError as error:
        raise ImportError(f"the screen needs textual: python -m pip install textual ({error})") from error
    Screen(sampler, options.seconds, options.pattern).run()
    return 0


def _print_once(sampler: Sampler, options: _Options) -> int:
    sampler.look()
    time.sleep(options.seconds)
    samples = sampler.look(holders=options.json)
    if options.json:
        print(json.dumps([asdict(each) for each in samples], indent=2))
    else:
        width = shutil.get_terminal_size((200, 24)).columns if sys.stdout.isatty() else 10_000
        print(as_text(samples, width, options.pattern))
    return 0
