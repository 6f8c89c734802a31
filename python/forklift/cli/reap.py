"""``forklift reap``: removes named shared memory of which no owner lives.

    forklift reap              # removes it, and says what
    forklift reap --look       # only says what there is

Named segments go by themselves with their last user. They stay when all processes of a program, the manager
of its segments among them, are killed at the same time; then the next program that uses Forklift removes
them, or this command. Whether an owner lives is decided by a lock that the kernel frees with the last
process, so what is in use is never touched.
"""

from __future__ import annotations

import sys

_USAGE = "usage: forklift reap [--look]"


def main(arguments: list[str]) -> int:
    """Run the command; its exit code is 1 if something that should go could not be removed."""
    if arguments not in ([], ["--look"]):
        asked = arguments in (["-h"], ["--help"])
        print(__doc__ if asked else _USAGE, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    from forklift._core import _segments

    look = bool(arguments)
    failed = False
    try:
        found = _segments.sweep(look)
    except OSError as error:
        print(f"forklift reap: {error}", file=sys.stderr)
        return 1
    for token, segments, nbytes, in_use, removed, problem in found:
        what = f"forklift-{token}: {segments} segment{'' if segments == 1 else 's'}, {nbytes} bytes"
        if in_use:
            print(f"{what}, in use")
        elif removed:
            print(f"{what}, removed")
        elif problem:
            failed = True
            print(f"forklift reap: {what}: {problem}", file=sys.stderr)
        else:
            print(f"{what}, without an owner")
    return 1 if failed else 0
