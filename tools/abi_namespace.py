#!/usr/bin/env python3
"""Puts every declaration of the library into its inline versioned namespace, or checks that each is.

    tools/abi_namespace.py            # exit status 1, and the files, where one is wrong
    tools/abi_namespace.py --write    # after the release's number changed in include/forklift/version.h

forklift::Queue is forklift::abi_0_1::Queue to the linker: objects that were compiled against headers of two
minor releases do not share a symbol, so neither is called with the other's layout. Sources and headers write
`namespace forklift::inline abi_0_1 {`; what is said to people drops the part (without_release). CUDA's
kernels (.cu, .cuh) are no part of it: they are images, which the linker does not see.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("include/forklift", "src", "tests/fake_cuda")
SUFFIXES = (".h", ".cpp")
OPENED = re.compile(
    r"^(?P<start>\s*namespace forklift)(?P<abi>::inline \w+)?(?P<rest>[\w:]*) \{", re.MULTILINE
)
CLOSED = re.compile(
    r"^(?P<start>\}\s+// namespace forklift)(?P<abi>::inline \w+|::abi_\w+)?(?P<rest>[\w:]*)$", re.MULTILINE
)


def release() -> str:
    """The name of this release's namespace: abi_MAJOR_MINOR."""
    text = (ROOT / "include/forklift/version.h").read_text()
    major, minor = (
        re.search(rf"kVersion{part} = (\d+);", text).group(1)  # type: ignore[union-attr]
        for part in ("Major", "Minor")
    )
    return f"abi_{major}_{minor}"


def corrected(text: str, name: str) -> str:
    text = OPENED.sub(rf"\g<start>::inline {name}\g<rest> {{", text)
    return CLOSED.sub(rf"\g<start>::inline {name}\g<rest>", text)


def main() -> int:
    write = "--write" in sys.argv[1:]
    name = release()
    wrong = 0
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in SUFFIXES:
                continue
            text = file.read_text()
            wanted = corrected(text, name)
            if text == wanted:
                continue
            wrong += 1
            if write:
                file.write_text(wanted)
            else:
                print(f"{file.relative_to(ROOT)}: not in `namespace forklift::inline {name}`")
    if wrong and not write:
        print("run tools/abi_namespace.py --write")
    return 1 if wrong and not write else 0


if __name__ == "__main__":
    sys.exit(main())
