"""Which modules a main module imports, read from its source."""

from __future__ import annotations

import ast
import sys
import types
from typing import Any

import pytest
from forklift.multiprocessing._start import main_imports

NAMES = [
    ("import a, b.c as d", ["a", "b.c"]),
    ("from a.b import c, d", ["a.b", "a.b.c", "a.b.d"]),
    ("from a import *", ["a"]),
    (
        "try:\n  import a\nexcept ImportError:\n  import b\nelse:\n  import c\nfinally:\n  import d",
        list("abcd"),
    ),
    ("with open('x'):\n  import a", ["a"]),
    ("if sys.version_info > (3,):\n  import a\nelse:\n  import b", ["a", "b"]),
    ("if TYPE_CHECKING:\n  import a\nelse:\n  import b", ["b"]),
    ("if typing.TYPE_CHECKING:\n  import a", []),
    ("if __name__ == '__main__':\n  import a\nelse:\n  import b", ["b"]),
    ("if '__main__' == __name__ and x:\n  import a", []),
    ("if __name__ != '__main__':\n  import a", ["a"]),
    ("def f():\n  import a\nclass C:\n  import b", []),
    ("from . import a", ["p.q", "p.q.a"]),
    ("from ..r import a", ["p.r", "p.r.a"]),
    ("from ...r import a", []),
    ("", []),
]


@pytest.mark.parametrize(("source", "names"), NAMES)
def test_the_names(source: str, names: list[str]) -> None:
    assert list(main_imports.names_in(ast.parse(source), "p.q")) == names


def test_relative_imports_without_a_package() -> None:
    assert list(main_imports.names_in(ast.parse("from . import a"), "")) == []


def _as_main(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    main = types.ModuleType("__main__")
    vars(main).update(values)
    monkeypatch.setitem(sys.modules, "__main__", main)


@pytest.mark.parametrize(
    "damage", [b"import json\nthis is no Python", b"import json\0", "ä".encode("latin-1")]
)
def test_a_file_that_cannot_be_parsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, damage: bytes) -> None:
    path = tmp_path / "main.py"
    path.write_bytes(damage)
    _as_main(monkeypatch, __file__=str(path), pytest=pytest)
    assert main_imports.main_imports() == ["pytest"]


def test_a_file_that_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    _as_main(monkeypatch, __file__=str(tmp_path / "main.py"), ast=ast)
    assert main_imports.main_imports() == ["ast"]


def test_a_main_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of its values, and those from which it has functions and classes."""
    of_main = type("Own", (), {"__module__": "__main__"})
    unknown = type("Made", (), {"__module__": "nowhere"})
    _as_main(monkeypatch, ast=ast, number=1, function=pytest.raises, Own=of_main, Made=unknown, _=sys)
    found = main_imports.main_imports()
    assert set(found) == {"ast", "sys", pytest.raises.__module__}


def test_only_what_is_imported_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    path = tmp_path / "main.py"
    path.write_text(
        "try:\n  import no_such_module\nexcept ImportError:\n  import json\nfrom os import path, sep\n"
    )
    _as_main(monkeypatch, __file__=str(path))
    assert main_imports.main_imports() == ["json", "os", "os.path"]


def test_no_main_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "__main__")
    assert main_imports.main_imports() == []
