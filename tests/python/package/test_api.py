"""Every name, signature and default of the running interpreter's multiprocessing, in all of its modules."""

from __future__ import annotations

import importlib
import inspect
import multiprocessing
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import forklift.multiprocessing
import pytest

# Elsewhere than on Linux only.
WINDOWS = {"popen_spawn_win32"}
MODULES = sorted(
    ".".join(path.relative_to(Path(multiprocessing.__file__).parent).with_suffix("").parts)
    for path in Path(multiprocessing.__file__).parent.rglob("*.py")
    if path.stem not in WINDOWS
)
# The standard library's way of doing it, which is not ours.
INTERNAL = {
    ("heap", "Heap"),
    ("heap", "Arena"),
    ("queues.Queue", "_start_thread"),
    ("queues.Queue", "_feed"),
}


def both(name: str) -> tuple[Any, Any]:
    dotted = "" if name == "__init__" else "." + name.removesuffix(".__init__")
    ours = importlib.import_module("forklift.multiprocessing" + dotted)
    return importlib.import_module("multiprocessing" + dotted), ours


def public(module: Any) -> list[str]:
    """What a program may import from it: not what it has imported itself."""
    listed = getattr(module, "__all__", None)
    names = set(listed or ()) | {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and (
            not callable(value)
            or getattr(value, "__module__", "").startswith(("multiprocessing", "forklift"))
        )
    }
    return sorted(names)


def parameters(function: Any) -> list[tuple[str, Any, Any]] | None:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(each.name, each.kind, each.default) for each in found]


def differences(where: str, theirs: Any, ours: Any) -> list[str]:
    """What a call that theirs takes would meet in ours."""
    wanted, found = parameters(theirs), parameters(ours)
    if wanted is None or found is None:
        return []
    wrong = []
    keyword_only, positional_only = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY
    for place, (name, kind, default) in enumerate(wanted):
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            wrong += [] if any(each[1] is kind for each in found) else [f"{where}: no *{name}"]
            continue
        if kind is keyword_only:
            mine = next((each for each in found if each[0] == name), None)
        else:
            mine = found[place] if place < len(found) else None
        # A first argument that C takes is nobody's keyword.
        by_place_only = mine is not None and mine[1] is positional_only and name not in ("self", "obj", "buf")
        another = default is not inspect.Parameter.empty and mine is not None and mine[2] != default
        if mine is None or mine[0] != name or another or (by_place_only and kind is not mine[1]):
            wrong.append(f"{where}: {name}={default}, ours {mine}")
    for name, kind, default in found[len(wanted) :]:
        if default is inspect.Parameter.empty and kind not in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            wrong.append(f"{where}: {name} is needed, in ours only")
    return wrong


def test_all_modules_are_there() -> None:
    assert len(MODULES) >= 22
    for name in MODULES:
        both(name)


@pytest.mark.parametrize("name", MODULES)
def test_names_and_signatures(name: str) -> None:
    theirs, ours = both(name)
    wrong = []
    for each in public(theirs):
        if not hasattr(ours, each):
            wrong.append(f"{name}.{each} is missing")
            continue
        their_object, our_object = getattr(theirs, each), getattr(ours, each)
        if their_object is our_object or (name, each) in INTERNAL or not callable(their_object):
            continue
        where = f"{name}.{each}"
        if not isinstance(their_object, type):
            wrong += differences(where, their_object, our_object)
            continue
        wrong += differences(where, their_object, our_object)
        for attribute, value in vars(their_object).items():
            if (where, attribute) in INTERNAL or attribute in ("__dict__", "__weakref__", "__doc__"):
                continue
            if not hasattr(our_object, attribute):
                wrong.append(f"{where}.{attribute} is missing")
            elif callable(value) and not attribute.startswith("_"):
                wrong += differences(f"{where}.{attribute}", value, getattr(our_object, attribute))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", None])
def test_contexts(method: str | None) -> None:
    theirs = multiprocessing.get_context(method)
    ours = forklift.multiprocessing.get_context(method)
    names = [name for name in dir(theirs) if not name.startswith("__")]
    wrong = [name for name in names if not hasattr(ours, name)]
    for name in names:
        value = getattr(theirs, name)
        if callable(value) and not isinstance(value, type) and not name.startswith("_") and name not in wrong:
            wrong += differences(f"context.{name}", value, getattr(ours, name))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", None])
def test_classes_of_contexts(method: str | None) -> None:
    mp = forklift.multiprocessing
    for each in (mp.get_context(method), mp.context._default_context):
        assert isinstance(each, mp.context.BaseContext)
        assert isinstance(each, multiprocessing.context.BaseContext)
        # What they make is still ours.
        assert type(each.Lock()).__module__ == "forklift.multiprocessing.synchronize"
    assert isinstance(mp.context._default_context, mp.context.DefaultContext)
    assert mp.get_context(method).get_context() is mp.get_context(method)
    assert mp.get_context("spawn").get_context(method).get_start_method() == (method or "spawn")


# What packages take hold of, by object.
PRIVATE = {
    "Queue": "_reader _writer _rlock _wlock _sem _maxsize _opid _closed _buffer _notempty _thread "
    "_on_queue_feeder_error _ignore_epipe _reset _poll",
    "JoinableQueue": "_reader _writer _rlock _wlock _sem _unfinished_tasks _cond",
    "SimpleQueue": "_reader _writer _rlock _wlock _poll",
    "Lock": "_semlock",
    "RLock": "_semlock",
    "Semaphore": "_semlock",
    "Condition": "_lock _sleeping_count _woken_count _wait_semaphore",
    "Event": "_core",
}
SEMLOCK = "_count _is_mine _get_value _is_zero acquire release"
POOL = (
    "_pool _inqueue _outqueue _quick_put _quick_get _setup_queues _repopulate_pool _taskqueue _cache _state "
    "_ctx _processes _terminate _guarded_task_generation"
)  # not _worker_handler, _task_handler and _result_handler: the engine has no such threads


@pytest.mark.parametrize("kind", PRIVATE)
def test_private_names_that_packages_use(kind: str) -> None:
    made = getattr(forklift.multiprocessing.get_context("fork"), kind)()
    for name in PRIVATE[kind].split():
        assert hasattr(made, name), name
    for name in SEMLOCK.split() if hasattr(made, "_semlock") else ():
        assert hasattr(made._semlock, name), name


def test_private_names_of_pools() -> None:
    with forklift.multiprocessing.get_context("fork").Pool(1) as pool:
        for name in POOL.split():
            assert hasattr(pool, name), name
        assert pool._pool[0].is_alive()
    pool.join()


def test_newer_features_come_with_the_interpreter() -> None:
    """Nothing is lost of what this version has."""
    process = forklift.multiprocessing.Process
    for name in ("interrupt", "kill", "close"):
        assert hasattr(process, name) == hasattr(multiprocessing.Process, name)
    managers = importlib.import_module("multiprocessing.managers")
    ours = importlib.import_module("forklift.multiprocessing.managers")
    assert set(ours.SyncManager._registry) == set(managers.SyncManager._registry)
    assert len(ours.SyncManager._registry) >= 17
    default = multiprocessing.get_context().get_start_method()
    assert forklift.multiprocessing.get_context().get_start_method() == default
    assert forklift.multiprocessing.get_all_start_methods() == multiprocessing.get_all_start_methods()
    assert forklift.multiprocessing.Lock().locked() is False  # the standard library's from 3.14 on


def test_modules_are_attributes_once_they_are_asked_for() -> None:
    """In a fresh interpreter, which has imported none of them."""
    names = [name for name in MODULES if "." not in name and name != "__init__"]
    code = f"""
import sys
import forklift.multiprocessing as mp
a, b = mp.Pipe()
a.send(1)
assert mp.connection.wait([b], 30) == [b]
for name in ("pool", "managers", "shared_memory"):
    assert "forklift.multiprocessing." + name not in sys.modules, name
for name in {names!r}:
    module = getattr(mp, name)
    assert module is sys.modules["forklift.multiprocessing." + name], name
    assert getattr(mp, name) is module, name
assert mp.util.__name__ == "multiprocessing.util"
assert issubclass(mp.pool.Pool, __import__("multiprocessing.pool").pool.Pool)
assert not hasattr(mp, "popen_spawn_win32") and not hasattr(mp, "nonsense")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
