"""The main function of a spawned child: the standard library's, without imports that most children never use.

A fresh interpreter that runs ``multiprocessing.spawn.spawn_main`` imports sixty modules before it unpickles a
byte: ``socket``, ``subprocess``, ``pickle`` and ``re`` among them, and ``typing`` to run a script. That is
two thirds of its life if it does nothing (decisions/0310). Here

- ``multiprocessing.connection``, ``reduction``, ``resource_tracker`` and ``spawn`` are there from the start,
  and are executed when somebody first asks one of them for something;
- ``multiprocessing.util`` gets the one function that it wants of ``subprocess`` when it calls it;
- the main module is run as ``runpy.run_path`` runs it, which is asked itself for all but a plain script.

The data that the child reads, and the order of all that the program can see, are the standard library's.
"""

import _frozen_importlib as _bootstrap
import _thread
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType as _ModuleType
    from typing import Any
else:
    Any = object
    _ModuleType = type(sys)

__all__ = ["compile_script", "run_code", "run_script", "spawn_main"]

_MODULES = ("connection", "reduction", "resource_tracker", "spawn")
# What multiprocessing.spawn.prepare() knows up to Python 3.14.
_KNOWN = frozenset(
    (
        "authkey",
        "dir",
        "init_main_from_name",
        "init_main_from_path",
        "log_level",
        "log_to_stderr",
        "name",
        "orig_dir",
        "start_method",
        "sys_argv",
        "sys_path",
    )
)
# The main modules that were replaced: multiprocessing.spawn keeps them alive in a list of this name.
old_main_modules: "list[Any]" = []
_tracker_fd: "int | None" = None


# The import system asks a module that is there for its __spec__. Programs look at all modules for the others,
# some in a loop over sys.modules that an import would break.
_ITS_OWN = ("__spec__", "__class__", "__name__")
_OF_ITS_SPEC = ("__file__", "__cached__", "__loader__", "__package__", "__path__", "__warningregistry__")


class _Later(_ModuleType):
    """A module that is executed when it is first asked for an attribute, and is an ordinary one from then on.

    Other threads wait meanwhile, by the import system's lock for this module, which detects deadlocks.
    """

    def __getattribute__(self, name: str) -> Any:
        get = _ModuleType.__getattribute__
        if name in _ITS_OWN or (name in _OF_ITS_SPEC and get(self, "__spec__") is not None):
            return get(self, name)
        _execute(self)
        return get(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("__spec__", "__class__"):
            _execute(self)
        _ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        _execute(self)
        _ModuleType.__delattr__(self, name)


_executing: "dict[_Later, int]" = {}


def _execute(module: _Later) -> None:
    me = _thread.get_ident()
    if _executing.get(module) == me:
        return  # its own code asks
    name = module.__name__
    bootstrap: Any = _bootstrap
    try:
        with bootstrap._ModuleLockManager(name):
            if type(module) is not _Later:
                return  # another thread was first
            if module.__spec__ is None:
                _describe(module)
            spec: Any = module.__spec__
            _executing[module] = me
            spec._initializing = True
            try:
                spec.loader.exec_module(module)
            finally:
                spec._initializing = False
                del _executing[module]
            module.__class__ = _ModuleType  # type: ignore[assignment]
            _complete(name, module)
    except bootstrap._DeadlockError:
        pass  # as in the import system: the other thread waits for this one, which sees a part of the module


def _describe(module: _Later) -> None:
    """Find the module, and set what its spec says of it."""
    bootstrap: Any = _bootstrap
    package: Any = sys.modules["multiprocessing"]
    spec = bootstrap._find_spec(module.__name__, package.__path__)
    _ModuleType.__setattr__(module, "__spec__", spec)
    _ModuleType.__setattr__(module, "__loader__", spec.loader)
    _ModuleType.__setattr__(module, "__package__", spec.parent)
    if spec.has_location:
        _ModuleType.__setattr__(module, "__file__", spec.origin)
        _ModuleType.__setattr__(module, "__cached__", spec.cached)


def _complete(name: str, module: Any) -> None:
    if name == "multiprocessing.resource_tracker":
        module._resource_tracker._fd = _tracker_fd
    elif name == "multiprocessing.spawn":
        module.old_main_modules.extend(old_main_modules)


def _import_multiprocessing() -> None:
    """Import the package and its `util`, with modules of _MODULES that are executed later.

    What is imported already, by code that runs before this (forklift.install() in children), stays. Such code
    may also be called by the import of the package, and ask these modules at once.
    """
    if "multiprocessing" in sys.modules:
        from multiprocessing import connection, reduction, resource_tracker, spawn, util  # noqa: F401

        return
    later = {}
    for name in _MODULES:
        full = "multiprocessing." + name
        later[name] = sys.modules[full] = _Later(full)
    package: Any = __import__("multiprocessing")
    for name, module in later.items():
        if module.__spec__ is None:
            _describe(module)
        if name not in package.__dict__:
            setattr(package, name, module)
    _import_util()


def _import_util() -> None:
    if "subprocess" in sys.modules:
        from multiprocessing import util

        return
    stand_in: Any = _ModuleType("subprocess")
    stand_in._args_from_interpreter_flags = _args_from_interpreter_flags
    sys.modules["subprocess"] = stand_in
    try:
        from multiprocessing import util
    except (AttributeError, ImportError):  # a version whose module wants more of it
        pass
    finally:
        del sys.modules["subprocess"]
    from multiprocessing import util  # noqa: F401


def _args_from_interpreter_flags() -> Any:
    import subprocess

    found: Any = subprocess
    return found._args_from_interpreter_flags()


def spawn_main(pipe_handle: int, parent_pid: Any = None, tracker_fd: Any = None) -> None:
    """Run the process whose data come through the pipe, as ``multiprocessing.spawn.spawn_main`` does."""
    global _tracker_fd
    from forklift import child_boot

    child_boot._collect_less()
    _tracker_fd = tracker_fd
    _import_multiprocessing()
    import os
    from multiprocessing import process

    try:
        from _pickle import load
    except ImportError:
        from pickle import load
    tracker = sys.modules["multiprocessing.resource_tracker"]
    if type(tracker) is not _Later:
        _complete(tracker.__name__, tracker)
    parent_sentinel = os.dup(pipe_handle)
    with os.fdopen(pipe_handle, "rb", closefd=True) as from_parent:
        current: Any = process.current_process()
        current._inheriting = True
        try:
            _prepare(load(from_parent))
            started = load(from_parent)
        finally:
            current = process.current_process()
            del current._inheriting
    sys.exit(started._bootstrap(parent_sentinel))


def _prepare(data: "dict[str, Any]") -> None:
    """``multiprocessing.spawn.prepare``."""
    import multiprocessing
    import os
    from multiprocessing import process as _process
    from multiprocessing import util

    process: Any = _process
    if not _KNOWN.issuperset(data):
        from multiprocessing import spawn

        spawn.prepare(data)
        return
    current: Any = process.current_process()
    if "name" in data:
        current.name = data["name"]
    if "authkey" in data:
        current.authkey = data["authkey"]
    if data.get("log_to_stderr"):
        util.log_to_stderr()
    if "log_level" in data:
        util.get_logger().setLevel(data["log_level"])
    if "sys_path" in data:
        sys.path = data["sys_path"]
    if "sys_argv" in data:
        sys.argv = data["sys_argv"]
    if "dir" in data:
        os.chdir(data["dir"])
    if "orig_dir" in data:
        process.ORIGINAL_DIR = data["orig_dir"]
    if "start_method" in data:
        multiprocessing.set_start_method(data["start_method"], force=True)
    if "init_main_from_name" in data:
        name: str = data["init_main_from_name"]
        if name.rpartition(".")[2] != "__main__":  # which are not run in children
            from multiprocessing import spawn

            module: Any = spawn
            module._fixup_main_from_name(name)
    elif "init_main_from_path" in data:
        _run_main(data["init_main_from_path"])


def _run_main(path: str) -> None:
    import os

    current = sys.modules["__main__"]
    if os.path.splitext(os.path.basename(path))[0] == "ipython" or getattr(current, "__file__", None) == path:
        return
    if "multiprocessing.spawn" in sys.modules and type(sys.modules["multiprocessing.spawn"]) is not _Later:
        sys.modules["multiprocessing.spawn"].old_main_modules.append(current)
    old_main_modules.append(current)
    main = _ModuleType("__mp_main__")
    main.__dict__.update(run_script(path))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main


def run_script(path: str) -> "dict[str, Any]":
    """``runpy.run_path(path, run_name="__mp_main__")``, without ``pkgutil`` if it is a source file."""
    code = compile_script(path)
    if code is None:
        import runpy

        return runpy.run_path(path, run_name="__mp_main__")
    return run_code(code, path)


def compile_script(path: str) -> Any:
    """The code of a source file; None of what only ``runpy`` knows how to run, or to refuse."""
    source = None if _is_importable(path) else _read_source(path)
    return None if source is None else compile(source, path, "exec", dont_inherit=True)


def run_code(code: Any, path: str) -> "dict[str, Any]":
    """Run the script's code as ``__mp_main__``: the names that it has made."""
    # The functions of the main module keep this dictionary: the module itself gets a copy of it.
    module = _ModuleType("__mp_main__")
    names = module.__dict__
    before = sys.modules.get("__mp_main__")
    sys.modules["__mp_main__"] = module
    argument, sys.argv[0] = sys.argv[0], path
    try:
        names.update(
            __name__="__mp_main__",
            __file__=path,
            __cached__=None,
            __doc__=None,
            __loader__=None,
            __package__="",
            __spec__=None,
        )
        exec(code, names)
    finally:
        sys.argv[0] = argument
        if before is None:
            del sys.modules["__mp_main__"]
        else:
            sys.modules["__mp_main__"] = before
    return names.copy()


def _is_importable(path: str) -> bool:
    """Tells whether it is a folder, an archive or something else in which modules are looked for."""
    if path in sys.path_importer_cache:
        return sys.path_importer_cache[path] is not None
    for hook in sys.path_hooks:
        try:
            finder = hook(path)
        except ImportError:
            continue
        sys.path_importer_cache.setdefault(path, finder)
        return True
    return False


def _read_source(path: str) -> "bytes | None":
    """The file's bytes; None if it is compiled code, or cannot be read (runpy raises the error)."""
    import io
    import os
    from _frozen_importlib_external import MAGIC_NUMBER

    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError:
        return None
    return None if source[: len(MAGIC_NUMBER)] == MAGIC_NUMBER else source
