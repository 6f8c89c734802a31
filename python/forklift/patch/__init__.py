"""``forklift.install()``: programs that import ``multiprocessing`` get Forklift's classes from it.

    import forklift
    forklift.install()                 # before the program makes queues, locks, pools or processes
    import multiprocessing             # Queue, Pool, Lock, Pipe, Value ... are Forklift's from here on

The patch replaces attributes of the standard library's own modules, in which the standard library looks its
classes up; contexts and all state stay the standard library's. A module that is not yet imported is patched
when it is imported. Forklift's module behind a replaced name is imported when the program first uses that
name. Children of every start method are patched before they unpickle their arguments.

Objects that were made before the patch keep their classes and work. So do classes that the program imported
by name, or derived from, before the patch. ``importlib.reload`` of a module of ``multiprocessing`` undoes the
patch, and interpreters that ``subprocess`` starts are not patched.

The code is in the package's own ``__init__``, so children that are fresh interpreters load one file less.
"""

import os
import sys
import types
from functools import partial

from forklift import child_boot

TYPE_CHECKING = False
if TYPE_CHECKING:  # not at run time, since every fresh interpreter among the children imports this
    from typing import Any
else:
    Any = object

__all__ = ["begin_children_with", "install", "install_for_children"]

_STD = "multiprocessing."
_EXECUTORS = "concurrent.futures.process"
_OURS = "forklift.multiprocessing."

# Module of the standard library: Forklift's module, and the names that the standard library looks up there.
_REPLACED: dict[str, tuple[str, tuple[str, ...]]] = {
    "connection": ("connection", ("Connection", "Pipe", "wait")),
    "heap": ("heap", ("BufferWrapper",)),
    "pool": ("pool", ("Pool",)),
    "popen_fork": ("popen_fork", ("Popen",)),
    "popen_forkserver": ("popen_forkserver", ("Popen",)),
    "popen_spawn_posix": ("popen_spawn_posix", ("Popen",)),
    "queues": ("queues", ("JoinableQueue", "Queue", "SimpleQueue")),
    "shared_memory": ("shared_memory", ("ShareableList", "SharedMemory")),
    "sharedctypes": ("sharedctypes", ("Array", "RawArray", "RawValue", "Value", "copy")),
    "synchronize": (
        "synchronize",
        ("Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"),
    ),
}
# Forklift's modules of these names are imported when the program first uses a replaced name. Their import
# takes long for a child that is a fresh interpreter, and most children have the standard library's module
# only because their main module imports it.
_ON_DEMAND = ("connection", "heap", "pool", "queues", "shared_memory", "sharedctypes", "synchronize")
# Functions that make connections. The module must be patched before the program calls one of them.
_MAKERS = {"connection": ("Client", "Listener")}
# Code that every interpreter started by `multiprocessing` runs first.
_prefixes = ["from forklift.patch import install_for_children as _f; _f(); "]

# The classes that were replaced, by name, for forklift.patch.originals.
replaced_classes: dict[str, Any] = {}
_done: set[str] = set()
_watcher: "_Watcher | None" = None


def _imported(name: str) -> Any:
    __import__(name)  # not importlib, which would be one more module for children to load
    return sys.modules[name]


def install() -> None:
    """Put Forklift's classes into the modules of ``multiprocessing``, in this process and all its children.

    It may be called again, from any thread, and makes no queue, lock or process. Call it before other
    packages are imported: a package keeps the classes that it has imported by name from ``multiprocessing``.
    """
    global _watcher
    if _watcher is None:
        _watcher = _Watcher()
        sys.meta_path.insert(0, _watcher)
        child_boot.add_task(install)
        _watch_forks()
    for name in _REPLACED:
        if _STD + name in sys.modules:
            _replace(name)
    _patch_managers()
    _patch_executors()


def _watch_forks() -> None:
    """Have each os.fork() examined before. In a child that is a fresh interpreter: once it loads the core."""
    if "forklift._core" in sys.modules or _is_first_process():
        from forklift.fork.policy import watch_forks

        watch_forks()


def _is_first_process() -> bool:
    process = sys.modules.get("multiprocessing.process")
    return process is None or process.parent_process() is None


def install_for_children() -> None:
    """Call install(), and have children that are fresh interpreters call it before they do anything else.

    For ``python -m forklift``. After install() alone, a child is patched only once it has imported its main
    module, so that the classes that this module defines are the same in parent and child.
    """
    install()
    if "spawn" not in _done:
        _done.add("spawn")
        from multiprocessing import util

        start: Any = util
        start.spawnv_passfds = partial(_spawn, start.spawnv_passfds)


def begin_children_with(code: str) -> None:
    """Have children that are fresh interpreters also run this code, after install_for_children()."""
    if code not in _prefixes:
        _prefixes.append(code)


def _spawn(start: Any, path: Any, args: Any, passfds: Any) -> Any:
    # The list may mix strings and bytes: the standard library encodes the strings later.
    args = [os.fsdecode(each) for each in args]
    at = args.index("-c") + 1 if "-c" in args else len(args)
    if at < len(args) and "resource_tracker" not in args[at]:
        args[at] = "".join(_prefixes) + args[at]
    return start(path, args, passfds)


class _Watcher:
    """A finder that delegates to the other finders, and patches a module after it has been executed."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _EXECUTORS and (
            not name.startswith((_STD, _OURS)) or name.rpartition(".")[2] not in _names
        ):
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._follow(spec)
                    return spec
        return None

    def _follow(self, spec: Any) -> None:
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            del loader.exec_module
            execute(module)
            _complete.add(module.__name__)
            for name, (ours, _) in _REPLACED.items():
                if module.__name__ in (_STD + name, _OURS + ours):
                    _replace(name)
            _patch_managers()
            _patch_executors()

        loader.exec_module = exec_module


_names = {"managers", *_REPLACED, *(ours for ours, _ in _REPLACED.values())}
_complete: set[str] = set()


def _is_complete(name: str) -> bool:
    module = sys.modules.get(name)
    return name in _complete or (module is not None and not getattr(module.__spec__, "_initializing", False))


def _replace(name: str, asked_for: bool = False) -> None:
    """Replace names in the standard library's module, once it and Forklift's have both been executed."""
    if name in _done or not _is_complete(_STD + name):
        return
    theirs: Any = sys.modules[_STD + name]
    ours_name, what = _REPLACED[name]
    # If concurrent.futures.process was imported earlier, it has a class derived from the standard library's
    # Queue, which must be replaced now.
    waits = name in _ON_DEMAND and not (name == "queues" and _is_complete("concurrent.futures.process"))
    if waits and not asked_for and _OURS + ours_name not in sys.modules:
        if type(theirs) is types.ModuleType:
            _defer(theirs, name, what)
        if isinstance(theirs, _Deferred):
            return
    # If Forklift's module is still being imported (its import may call this function), do nothing yet: this
    # function is called again at the end of that import.
    ours: Any = _imported(_OURS + ours_name)
    if name in _done or not (ours is theirs or _is_complete(_OURS + ours_name)):
        return
    _done.add(name)
    if isinstance(theirs, _Deferred):
        theirs.__class__ = types.ModuleType  # type: ignore[assignment]
    for each in what:
        _replace_one(theirs, each, getattr(ours, each))
    if name == "queues" and _is_complete("concurrent.futures.process"):
        _fix_executors(sys.modules["concurrent.futures.process"])


class _Deferred(types.ModuleType):
    """The class of a module of the standard library until Forklift's module is imported."""

    def __reduce__(self) -> Any:  # for cloudpickle, which recognises modules by their exact class
        return _imported, (self.__name__,)


class _OnDemand:
    """A replaced name of a deferred module: the first access from outside replaces the module's names.

    The module's own functions still find the original in the module's dictionary.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __get__(self, module: Any, owner: Any = None) -> Any:
        if module is None:
            return self
        # The import of managers looks up some names. That is no use of them by the program;
        # _patch_managers() replaces them afterwards.
        if not _is_being_imported("multiprocessing.managers"):
            _replace(self._module, asked_for=True)
        return vars(module)[self._name]

    def __set__(self, module: Any, value: Any) -> None:
        _replace(self._module, asked_for=True)
        vars(module)[self._name] = value

    def __delete__(self, module: Any) -> None:
        _replace(self._module, asked_for=True)
        del vars(module)[self._name]


def _defer(module: Any, name: str, what: "tuple[str, ...]") -> None:
    for each in what:
        _set_aside(each, vars(module)[each])
    names = what + _MAKERS.get(name, ())
    module.__class__ = type("module", (_Deferred,), {each: _OnDemand(name, each) for each in names})


def _is_being_imported(name: str) -> bool:
    return name in sys.modules and not _is_complete(name)


def _replace_one(module: Any, name: str, new: Any) -> None:
    old = getattr(module, name)
    if new is old:
        return
    _set_aside(name, old)
    setattr(module, name, new)


def _set_aside(name: str, old: Any) -> None:
    if isinstance(old, type) and name != "Popen":
        replaced_classes[name] = old
        old.__module__ = "forklift.patch.originals"


def _patch_managers() -> None:
    """Patch what `managers` has copied from other modules: the makers of its connections and pools."""
    managers: Any = sys.modules.get("multiprocessing.managers")
    if "managers" in _done or managers is None or not _is_complete("multiprocessing.managers"):
        return
    _done.add("managers")
    managers.listener_client["pickle"] = (_make_listener, _make_client)
    _made_by, *rest = managers.SyncManager._registry["Pool"]
    managers.SyncManager._registry["Pool"] = (_make_pool, *rest)


# These are functions so that Forklift's module is imported only when the first object is made.
def _make_listener(*args: Any, **named: Any) -> Any:
    from forklift.multiprocessing._channels.manager_connections import Listener

    return Listener(*args, **named)


def _make_client(*args: Any, **named: Any) -> Any:
    from forklift.multiprocessing._channels.manager_connections import Client

    return Client(*args, **named)


def _make_pool(*args: Any, **named: Any) -> Any:
    return sys.modules[_STD + "pool"].Pool(*args, **named)


def _patch_executors() -> None:
    """Have concurrent.futures hand out Forklift's ProcessPoolExecutor, which the first use imports.

    The module may be incomplete: it imports `multiprocessing`, and the program may patch that at its import.
    """
    module: Any = sys.modules.get(_EXECUTORS)
    if "executors" in _done or type(module) is not types.ModuleType:
        return
    _done.add("executors")
    module.__class__ = type("module", (_Deferred,), {"ProcessPoolExecutor": _Executor()})
    # Of an earlier use. The package looks the name up in the module when it is asked for it again.
    vars(sys.modules["concurrent.futures"]).pop("ProcessPoolExecutor", None)


class _Executor:
    """The name ProcessPoolExecutor of concurrent.futures.process, until the program uses it."""

    def __get__(self, module: Any, owner: Any = None) -> Any:
        if module is None:
            return self
        if "ProcessPoolExecutor" not in vars(module):
            raise AttributeError(f"module {_EXECUTORS!r} has no attribute 'ProcessPoolExecutor' yet")
        ours = _imported(_OURS + "_executor.executor").ProcessPoolExecutor
        module.__class__ = types.ModuleType
        _replace_one(module, "ProcessPoolExecutor", ours)
        return ours

    def __set__(self, module: Any, value: Any) -> None:
        module.__class__ = types.ModuleType
        module.ProcessPoolExecutor = value


def _fix_executors(module: Any) -> None:
    """Replace the queue classes in concurrent.futures.process, if it was imported before the patch."""
    queue = sys.modules[_STD + "queues"].Queue
    if module.Queue is not queue:
        module.Queue = queue
        module._SafeQueue = _derived_from(queue, module._SafeQueue)


def _derived_from(base: type, old: type) -> type:
    """A copy of the class `old` with another base. (Assigning ``__bases__`` needs an equal object layout.)"""
    cell = types.CellType()
    members = {k: v for k, v in vars(old).items() if k not in ("__dict__", "__weakref__")}
    for name, member in members.items():
        if isinstance(member, types.FunctionType) and member.__closure__:
            closure = tuple(
                cell if free == "__class__" else kept
                for free, kept in zip(member.__code__.co_freevars, member.__closure__, strict=True)
            )
            members[name] = types.FunctionType(
                member.__code__, member.__globals__, name, member.__defaults__, closure
            )
    new = type(old.__name__, (base,), members)
    cell.cell_contents = new
    return new
