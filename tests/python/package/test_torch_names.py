"""Every public name of torch.multiprocessing, in all of its modules, without importing torch."""

from __future__ import annotations

import importlib
import inspect
import pickle
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

import forklift.multiprocessing
import pytest

torch = pytest.importorskip("torch")
import torch.multiprocessing as theirs  # noqa: E402

MODULES = ("", ".reductions", ".spawn", ".pool", ".queue")


def pair(name: str) -> tuple[Any, Any]:
    if name == ".spawn":  # torch has the function under this name, and the module only in sys.modules
        return sys.modules["torch.multiprocessing.spawn"], forklift.multiprocessing.spawn
    their = importlib.import_module("torch.multiprocessing" + name)
    return their, importlib.import_module("forklift.multiprocessing" + name)


def own_names(module: Any) -> list[str]:
    """Its ``__all__``, and what it defines; the package also has names from its modules."""
    where = "torch.multiprocessing" if module is theirs else module.__name__
    defined = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", where).startswith(where)
    }
    return sorted(defined | set(getattr(module, "__all__", ())))


@pytest.mark.parametrize("name", MODULES)
def test_names_and_signatures(name: str) -> None:
    their, ours = pair(name)
    names = own_names(their)
    assert names
    wrong = [each for each in names if not hasattr(ours, each)]
    for each in set(names) - set(wrong):
        their_object, our_object = getattr(their, each), getattr(ours, each)
        # What torch takes from the standard library is compared in test_api.py.
        if their_object is our_object or not getattr(their_object, "__module__", "").startswith("torch"):
            continue
        assert callable(their_object) == callable(our_object), each
        wrong += _differences(f"{name}.{each}", their_object, our_object)
        if isinstance(their_object, type):
            for method, value in vars(their_object).items():
                if not method.startswith("_") and callable(value):
                    wrong += _differences(f"{each}.{method}", value, getattr(our_object, method))
    assert not wrong


def _differences(where: str, their: Any, ours: Any) -> list[str]:
    """What a call that theirs takes would meet in ours. Ours may have defaults and keywords besides."""
    empty, keyword_only = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    wanted = list(inspect.signature(their).parameters.values())
    found = list(inspect.signature(ours).parameters.values())
    if [str(each) for each in wanted[-2:]] == ["*args", "**kwargs"]:
        return []  # torch's Queue takes what the standard library's does, which test_api.py compares
    wrong = [
        f"{where}: {one}, ours {other}"
        for one, other in zip(wanted, found, strict=False)
        if (one.name, one.kind) != (other.name, other.kind) or one.default not in (empty, other.default)
    ]
    wrong += [f"{where}: {each} is missing" for each in wanted[len(found) :]]
    more = found[len(wanted) :]
    return wrong + [
        f"{where}: {each}" for each in more if each.kind is not keyword_only or each.default is empty
    ]


def test_private_names_that_programs_use() -> None:
    for name in ("_set_thread_name", "_get_thread_name", "_prctl_pr_set_pdeathsig"):
        assert callable(getattr(forklift.multiprocessing, name))
        assert hasattr(theirs, name)
    assert forklift.multiprocessing.ENV_VAR_PARALLEL_START == theirs.ENV_VAR_PARALLEL_START


def test_spawn_is_a_function_and_a_module() -> None:
    mp: Any = forklift.multiprocessing
    standard = importlib.import_module("multiprocessing.spawn")
    assert callable(mp.spawn)
    assert inspect.signature(mp.spawn) == inspect.signature(mp.spawn.spawn)
    assert mp.spawn is sys.modules["forklift.multiprocessing.spawn"]
    assert mp.spawn is importlib.import_module("forklift.multiprocessing.spawn")
    assert isinstance(mp.spawn, types.ModuleType)
    assert mp.spawn.__name__ == "forklift.multiprocessing.spawn"
    assert pickle.loads(pickle.dumps(mp.spawn)) is mp.spawn
    assert mp.spawn.get_preparation_data is standard.get_preparation_data
    assert mp.spawn.WINEXE == standard.WINEXE
    assert set(dir(standard)) <= set(dir(mp.spawn))
    with pytest.raises(AttributeError, match="nonsense"):
        mp.spawn.nonsense  # noqa: B018


def test_what_is_set_in_spawn_is_set_in_the_standard_librarys() -> None:
    standard: Any = importlib.import_module("multiprocessing.spawn")
    ours: Any = forklift.multiprocessing.spawn
    before = ours._python_exe
    try:
        ours._python_exe = b"/somewhere/python"
        assert standard.get_executable() == b"/somewhere/python"
        ours.set_executable("/elsewhere/python")
        assert standard._python_exe == b"/elsewhere/python"
        ours.nobodys = 1
        assert not hasattr(standard, "nobodys")
        del ours.nobodys
    finally:
        ours._python_exe = before
    assert standard.get_executable() == before


def test_reductions_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    ours: Any = importlib.import_module("forklift.multiprocessing.reductions")
    their: Any = importlib.import_module("torch.multiprocessing.reductions")
    assert ours.StorageWeakRef is their.StorageWeakRef
    assert {name for name in dir(their) if not name.startswith("__")} <= set(dir(ours))
    monkeypatch.setattr(ours, "fd_id", len)
    assert their.fd_id is len
    names: dict[str, Any] = {}
    exec("from forklift.multiprocessing.reductions import *", names)
    assert names["rebuild_tensor"] is their.rebuild_tensor


def test_the_message_about_a_strategy_is_torchs() -> None:
    with pytest.raises(AssertionError) as wanted:
        theirs.set_sharing_strategy("telepathy")
    with pytest.raises(AssertionError) as found:
        forklift.multiprocessing.set_sharing_strategy("telepathy")
    assert str(found.value) == str(wanted.value)
    code = """
import sys
import forklift.multiprocessing as mp
try:
    mp.set_sharing_strategy("telepathy")
except AssertionError as error:
    print(error)
assert "torch" not in sys.modules
"""
    # The order of a set is each interpreter's own.
    assert sorted(_run(code)) == sorted(str(wanted.value))


def _run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments, "-c", code], check=True, timeout=60, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def strategy() -> Iterator[None]:
    before = theirs.get_sharing_strategy()
    yield
    theirs.set_sharing_strategy(before)


def test_one_strategy(strategy: None) -> None:
    ours: Any = forklift.multiprocessing
    assert ours.get_all_sharing_strategies() == theirs.get_all_sharing_strategies()
    for name in sorted(ours.get_all_sharing_strategies()):
        ours.set_sharing_strategy(name)
        assert theirs.get_sharing_strategy() == name
    for name in sorted(ours.get_all_sharing_strategies()):
        theirs.set_sharing_strategy(name)
        assert ours.get_sharing_strategy() == name


@pytest.mark.parametrize(
    "how", ["import torch", "import torch.multiprocessing", "from torch import multiprocessing"]
)
def test_a_strategy_that_was_set_before_torch_is_imported(how: str) -> None:
    code = f"""
import sys
import forklift.multiprocessing as mp
assert mp.get_sharing_strategy() == "file_descriptor"
mp.set_sharing_strategy("file_system")
assert mp.get_sharing_strategy() == "file_system" and "torch" not in sys.modules
before = len(sys.meta_path)
{how}
import torch
assert torch.multiprocessing.get_sharing_strategy() == "file_system"
assert len(sys.meta_path) == before - 1, "the finder that waited for torch"
mp.set_sharing_strategy("file_descriptor")
assert torch.multiprocessing.get_sharing_strategy() == "file_descriptor"
"""
    _run(code)


@pytest.mark.parametrize("module", ["forklift.multiprocessing", "torch.multiprocessing"])
def test_which_children_have_the_strategy(module: str) -> None:
    """Forked ones; it is a variable of the process."""
    code = f"""
import importlib, multiprocessing.util
mp = importlib.import_module({module!r})
def tell(queue):
    queue.put(mp.get_sharing_strategy())
if __name__ == "__main__":
    mp.set_sharing_strategy("file_system")
    context = mp.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=tell, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
"""
    assert _run(code) == "file_system"
    spawned = """
import multiprocessing, sys
def main(module):
    import importlib
    mp = importlib.import_module(module)
    mp.set_sharing_strategy("file_system")
    with mp.get_context("spawn").Pool(1) as pool:
        name = pool.apply(eval, (f"__import__({module!r}, fromlist=['x']).get_sharing_strategy()",))
        print(name)
main(sys.argv[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", spawned, module], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout.strip() == "file_descriptor"


def test_names_of_threads_are_cut_as_torchs() -> None:
    before = theirs._get_thread_name()
    try:
        for name in ("trainer", "a name that is far too long", ""):
            forklift.multiprocessing._set_thread_name(name)
            ours = forklift.multiprocessing._get_thread_name()
            assert ours == theirs._get_thread_name() == name[:15]
            theirs._set_thread_name(name)
            assert theirs._get_thread_name() == ours
    finally:
        theirs._set_thread_name(before)


def test_nothing_of_it_imports_torch() -> None:
    code = """
import sys
import forklift.multiprocessing as mp
import forklift.multiprocessing.spawn, forklift.multiprocessing.reductions, forklift.multiprocessing.queue
from forklift.multiprocessing.spawn import ProcessContext, spawn, start_processes
from forklift.multiprocessing.pool import Pool, clean_worker
mp.get_sharing_strategy(), mp.get_all_sharing_strategies(), mp._get_thread_name()
mp.spawn, mp.start_processes
mp.ProcessRaisedException, mp.reductions, mp.queue.SimpleQueue, mp.ENV_VAR_PARALLEL_START
assert "torch" not in sys.modules
"""
    _run(code)


def test_the_package_is_as_light_as_before() -> None:
    code = """
import sys
import forklift.multiprocessing
ours = [name for name in sys.modules if name.startswith("forklift")]
print(" ".join(sorted(ours)), "multiprocessing" in sys.modules, "logging" in sys.modules)
"""
    assert _run(code) == "forklift forklift.multiprocessing False False"


def test_torchs_own_spawn_under_the_command() -> None:
    code = """
import torch.multiprocessing, torch, inspect, sys
assert torch.multiprocessing.spawn.__module__ == "torch.multiprocessing.spawn"
import forklift.multiprocessing as mp
assert callable(mp.spawn) and mp.spawn is sys.modules["forklift.multiprocessing.spawn"]
assert mp.spawn.get_executable() is not None
torch.multiprocessing.start_processes(print, nprocs=2, start_method="fork")
"""
    assert sorted(_run(code, "-m", "forklift").split()) == ["0", "1"]
