"""Measures rows on one contender, one value for each line that it reads: a row's name. `run.py` starts it.

python worker.py MODULE|PEER|floor [--quick] [--tiny]

Every contender has an interpreter of its own, so that the imports, threads and at-fork handlers of one do not
affect the figures of another. It sleeps while another one is measured.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback

from rows import DEVICE_ROWS, ROWS
from rows.spec import FLOOR, Library, Scale


def main() -> int:
    contender = sys.argv[1]
    scale = Scale(quick="--quick" in sys.argv[2:], tiny="--tiny" in sys.argv[2:])
    rows = {row.name: row for row in (*ROWS, *DEVICE_ROWS)}
    library = None
    for line in sys.stdin:
        if not line.strip():
            continue
        row = rows[line.strip()]
        other = next((other for other in row.others if other.name == contender), None)
        answer: dict[str, float | str]
        try:
            if contender == FLOOR:
                assert row.floor is not None
                answer = {"value": row.floor(scale)}
            elif other is not None:
                answer = {"value": other.measure(scale)}
            else:
                assert row.measure is not None
                library = library or Library(contender, importlib.import_module(contender))
                answer = {"value": row.measure(library, scale)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
