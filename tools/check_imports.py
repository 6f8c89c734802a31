"""Check that the Python package's modules import each other in one direction only.

python tools/check_imports.py [PACKAGE]

- There is no circle. Imports inside functions count, imports for type checkers (`if TYPE_CHECKING:`) do not.
- A module imports modules of its own or an earlier room only (ROOMS).

A string that is an argument of a call and names a module counts as an import, too: in full
(`__import__("forklift.errors")`) or relative to the package of the calling module (`_module(".queues")`).
Names that a package exports lazily, by a table, do not count.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# The rooms in order. A module belongs to the room with the longest prefix of the module's name.
ROOMS = (
    (
        "forklift._core",
        "forklift.errors",
        "forklift.generic",
        "forklift.child_boot",
        "forklift.fresh_child",
        "forklift.telemetry",
    ),
    ("forklift.multiprocessing._start.invitation",),
    ("forklift.reducers", "forklift.adapters"),
    ("forklift.fork",),
    ("forklift.ops", "forklift.context"),
    ("forklift.multiprocessing",),
    ("forklift.adapters.torch.loader", "forklift.adapters.torch.loading", "forklift.adapters.joblib"),
    ("forklift.patch", "forklift.collectives"),
    ("forklift.objects", "forklift.diagnosis", "forklift.event_log", "forklift.trace"),
    ("forklift.cluster", "forklift.adapters.torch.distributed"),
    ("forklift.cli", "forklift.__main__"),
    ("forklift",),
)

# Imports that may close a circle: (importing module, imported module), each with its reason.
_CONTEXT = "forklift.multiprocessing.context"
_DEFAULT = (
    "as in the standard library, contexts make these objects, and without a context they take the default"
)
EXCEPTIONS = {
    ("forklift.multiprocessing.pool", _CONTEXT): _DEFAULT,
    ("forklift.multiprocessing.sharedctypes", _CONTEXT): _DEFAULT,
}


class Import(NamedTuple):
    target: str
    line: int


def modules_of(package: Path) -> dict[str, Path]:
    """The names and files of all modules of a package. The stub stands for an extension module."""
    found: dict[str, Path] = {}
    for path in sorted(package.glob("**/*.py*")):
        if path.suffix in (".py", ".pyi"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if name not in found or path.suffix == ".py":
                found[name] = path
    return found


def is_for_type_checkers(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def nodes_at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and is_for_type_checkers(child.test):
            for other in child.orelse:
                yield other
                yield from nodes_at_run_time(other)
        else:
            yield child
            yield from nodes_at_run_time(child)


def names_in(node: ast.AST, package: str) -> Iterator[str]:
    """The full names that a statement imports or a call mentions; for `from a import b` it is a.b."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*parents, *([node.module] if node.module else [])])
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call):
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield package + argument.value if argument.value.startswith(".") else argument.value


def imports_of(name: str, modules: dict[str, Path]) -> Iterator[Import]:
    """The imports of other modules of the package."""
    path = modules[name]
    if path.suffix != ".py":
        return
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes_at_run_time(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        for mentioned in names_in(node, package):
            target = mentioned
            if isinstance(node, ast.ImportFrom) and target not in modules:
                target = target.rpartition(".")[0]  # the imported name is not a module
            if target in modules and target != name:
                yield Import(target, getattr(node, "lineno", 0))


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        path.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in path:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            part = path[path.index(name) :]
            del path[path.index(name) :]
            if len(part) > 1:
                found.append(sorted(part))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def room_of(name: str) -> int | None:
    """The number of a module's room; None if it has no room."""
    best, length = None, 0
    for number, rooms in enumerate(ROOMS):
        for each in rooms:
            if len(each) > length and (name == each or name.startswith(each + ".")):
                best, length = number, len(each)
    return best


def check_imports(package: Path) -> Iterator[str]:
    modules = modules_of(package)
    imports = {name: sorted(set(imports_of(name, modules))) for name in modules}
    for name, found in imports.items():
        for target, line in found:
            own, other = room_of(name), room_of(target)
            if own is not None and other is not None and other > own:
                where = f"{modules[name].relative_to(package.parent)}:{line}"
                yield f"{where}: {name} imports {target} of a later room (ROOMS of tools/check_imports.py)"
    if package.name == "forklift":
        for name, target in EXCEPTIONS:
            if all(each.target != target for each in imports.get(name, ())):
                yield f"EXCEPTIONS of tools/check_imports.py: {name} does not import {target}"
    graph = {
        name: {each.target for each in found if (name, each.target) not in EXCEPTIONS}
        for name, found in imports.items()
    }
    for circle in circles(graph):
        steps = (
            f"{modules[name].relative_to(package.parent)}:{line} imports {target}"
            for name in circle
            for target, line in imports[name]
            if target in circle
        )
        yield f"a circle of {len(circle)} modules: " + "; ".join(steps)


def main(arguments: list[str]) -> int:
    root = Path(__file__).parent.parent
    package = Path(arguments[0]) if arguments else root / "python" / "forklift"
    errors = list(check_imports(package.resolve()))
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
