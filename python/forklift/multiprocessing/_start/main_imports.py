"""Tells which modules the program's main module imports, without running it.

The fork server imports these modules once for all of its children. A child runs the main module as
``__mp_main__``, so the imports that are found are those that a child makes then: the statements at the top
level, in ``try`` and ``with`` too, but neither those below ``if TYPE_CHECKING`` nor those below
``if __name__ == "__main__"``.
"""

from __future__ import annotations

import os
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = ["main_imports", "names_in"]

_ONLY_AST = 0x400  # ast.PyCF_ONLY_AST: compile() needs no import of ast, which takes milliseconds
# Modules of the interactive shells, in whose main module the program's own names are.
_SHELLS = ("IPython", "ipykernel")


def main_imports() -> list[str]:
    """The names of the modules, in the order in which the main module imports them.

    Only modules that are imported in this process are named. So of alternatives (``try: import a`` and
    ``except ImportError: import b``) the one is named that exists. A main module without a source, such as
    that of ``python -c`` or of an interactive shell, imports what its names come from.
    """
    main: Any = sys.modules.get("__main__")
    if main is None:
        return []
    tree = _tree_of(main)
    found = _names_of_objects(main) if tree is None else names_in(tree, _package_of(main))
    return [name for name in dict.fromkeys(found) if _can_be_imported(name)]


def _can_be_imported(name: str) -> bool:
    return name not in ("__main__", "__mp_main__") and sys.modules.get(name) is not None


def _package_of(main: Any) -> str:
    spec = getattr(main, "__spec__", None)
    return str(getattr(main, "__package__", None) or (spec.parent if spec is not None else ""))


def _tree_of(main: Any) -> Any:
    """The syntax tree of the main module, or None if there is no source that children would run."""
    path = getattr(main, "__file__", None)
    spec = getattr(main, "__spec__", None)
    if os.path.splitext(os.path.basename(path or ""))[0] == "ipython":
        return None  # as the standard library, whose children do not run it
    try:
        if spec is not None:
            source = spec.loader.get_source(spec.name)
        elif path is not None:
            with open(path, "rb") as file:
                source = file.read()
        else:
            return None
        return None if source is None else compile(source, "__main__", "exec", _ONLY_AST, dont_inherit=True)
    except (OSError, ImportError, SyntaxError, ValueError, AttributeError):
        return None


def names_in(tree: ast.Module, package: str) -> Iterator[str]:
    """The full names of the modules that the top level of a module of `package` imports.

    For ``from a import b`` these are ``a`` and ``a.b``, which may be a module or not.
    """
    for node in _statements(tree.body):
        if type(node).__name__ == "Import":
            yield from (alias.name for alias in node.names)
        else:
            base = _absolute(node.module or "", node.level, package)
            if base is not None:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def _absolute(module: str, level: int, package: str) -> str | None:
    if level == 0:
        return module
    parents = package.split(".")
    if not package or level > len(parents):
        return None
    base = ".".join(parents[: len(parents) - level + 1])
    return f"{base}.{module}" if module else base


def _statements(body: Iterable[Any]) -> Iterator[Any]:
    """The import statements that run whenever the module is run under a name other than __main__."""
    for node in body:
        kind = type(node).__name__
        if kind in ("Import", "ImportFrom"):
            yield node
        elif kind == "If":
            if not (_is_for_type_checkers(node.test) or _is_for_main(node.test)):
                yield from _statements(node.body)
            yield from _statements(node.orelse)
        elif kind in ("Try", "TryStar"):
            yield from _statements(node.body)
            for handler in node.handlers:
                yield from _statements(handler.body)
            yield from _statements(node.orelse)
            yield from _statements(node.finalbody)
        elif kind == "With":
            yield from _statements(node.body)


def _is_for_type_checkers(test: Any) -> bool:
    return (getattr(test, "attr", None) or getattr(test, "id", None)) == "TYPE_CHECKING"


def _is_for_main(test: Any) -> bool:
    """Tells whether the test is ``__name__ == "__main__"``, possibly with more after ``and``."""
    if type(test).__name__ == "BoolOp" and type(test.op).__name__ == "And":
        return any(_is_for_main(each) for each in test.values)
    if type(test).__name__ != "Compare" or [type(each).__name__ for each in test.ops] != ["Eq"]:
        return False
    sides = (test.left, *test.comparators)
    return any(getattr(each, "id", None) == "__name__" for each in sides) and any(
        getattr(each, "value", None) == "__main__" for each in sides
    )


def _names_of_objects(main: Any) -> Iterator[str]:
    """The modules among a module's values, and those that its functions and classes come from."""
    for value in list(vars(main).values()):
        if isinstance(value, types.ModuleType):
            name: Any = value.__name__
        elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            name = value.__module__
        else:
            continue
        if isinstance(name, str) and name.partition(".")[0] not in _SHELLS:
            yield name
