"""Make the reference of the C++ API with Doxygen, and check that each public declaration has a comment.

`make docs` calls it. These need no comment: members that mean what they mean in the standard library
(copying, comparing, iterating), the specialisations of ValueTraits, members that only the library itself
calls, the structures of DLPack, and annotations.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Doxygen's warnings about declarations that need no comment (see above), or that are inherited.
_SAYS_ITSELF = re.compile(
    r"operator(=|==|!=|\*|->|\+\+| bool)\(|~\w+\(\)|"
    r"Member (size|empty|data|begin|end|swap|push_back)\(|"
    r"Member (value_type|iterator_concept|iterator_category|difference_type|pointer|reference) |"
    r"Member \w+\(const \w+ &\)=default|Member (?P<name>\w+)\((const )?(?P=name)\b[^,)]*&{1,2}[^,)]*\) |"
    r"Member (Error|RemoteError)\(|Member \w+\([^)]*(detail::|channel::|locks::)|Member \w+\(ResultStream|"
    r"const ChannelRef &channel\)|Member core\(|Member inherited\(|"
    r"\(macro definition\)|ValueTraits<|namespace forklift::dlpack|forklift::dlpack::"
)


def main() -> int:
    (ROOT / "build" / "docs").mkdir(parents=True, exist_ok=True)
    run = subprocess.run(
        ["doxygen", "docs/Doxyfile"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    # Remove the line numbers: they count the lines of the filtered text.
    lines = (re.sub(r"^.*/(\w+\.h):\d+: ", r"\1: ", line) for line in run.stderr.splitlines() if line)
    wrong = sorted({line for line in lines if not _SAYS_ITSELF.search(line)})
    print("\n".join(wrong))
    print(f"docs: build/docs/html/index.html, {len(wrong)} things to say")
    return 1 if wrong or run.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
