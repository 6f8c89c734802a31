"""Contexts: the standard library's, with our queues, pools, shared values and processes.

There is one state, the standard library's: which start method was chosen, who the current process is, which
children there are. Setting the start method here sets it there, and the reverse.
"""

import sys
from multiprocessing import context as _std
from multiprocessing import reduction  # noqa: F401
from multiprocessing.context import (  # noqa: F401
    AuthenticationError,
    BufferTooShort,
    ProcessError,
    TimeoutError,
    assert_spawning,
    get_spawning_popen,
    set_spawning_popen,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # not at run time, since every fresh interpreter among the children imports this
    from typing import Any
else:
    Any = object

__all__: tuple[str, ...] = ()
_modules: dict[str, Any] = {}


def _ours(name: str) -> Any:
    """A module of this package, imported when it is first used.

    An import statement in its place takes as long as making three locks: it asks the module for ``__path__``,
    which ends in its ``__getattr__``.
    """
    module = _modules.get(name)
    if module is None:
        full = f"forklift.multiprocessing.{name}"
        __import__(full)
        module = _modules[name] = sys.modules[full]
    return module


class _Queues:
    """The constructors that differ from the standard library's."""

    def get_context(self, method: str | None = None) -> Any:
        raise NotImplementedError

    def Queue(self, maxsize: int = 0, *, strict: bool = False, framework: str | None = None) -> Any:
        """Returns a queue object"""
        return _ours("queues").Queue(maxsize, ctx=self.get_context(), strict=strict, framework=framework)

    def JoinableQueue(self, maxsize: int = 0, *, strict: bool = False, framework: str | None = None) -> Any:
        """Returns a queue object"""
        return _ours("queues").JoinableQueue(
            maxsize, ctx=self.get_context(), strict=strict, framework=framework
        )

    def SimpleQueue(self, *, framework: str | None = None) -> Any:
        """Returns a queue object"""
        return _ours("queues").SimpleQueue(ctx=self.get_context(), framework=framework)

    def Lock(self) -> Any:
        """Returns a non-recursive lock object"""
        return _ours("synchronize").Lock(ctx=self.get_context())

    def RLock(self) -> Any:
        """Returns a recursive lock object"""
        return _ours("synchronize").RLock(ctx=self.get_context())

    def Condition(self, lock: Any = None) -> Any:
        """Returns a condition object"""
        return _ours("synchronize").Condition(lock, ctx=self.get_context())

    def Semaphore(self, value: int = 1, *, recover: bool = False) -> Any:
        """Returns a semaphore object"""
        return _ours("synchronize").Semaphore(value, ctx=self.get_context(), recover=recover)

    def BoundedSemaphore(self, value: int = 1, *, recover: bool = False) -> Any:
        """Returns a bounded semaphore object"""
        return _ours("synchronize").BoundedSemaphore(value, ctx=self.get_context(), recover=recover)

    def Event(self) -> Any:
        """Returns an event object"""
        return _ours("synchronize").Event(ctx=self.get_context())

    def Barrier(self, parties: int, action: Any = None, timeout: float | None = None) -> Any:
        """Returns a barrier object"""
        return _ours("synchronize").Barrier(parties, action, timeout, ctx=self.get_context())

    def Pipe(self, duplex: bool = True) -> Any:
        """Returns two connection object connected by a pipe"""
        return _ours("pipes").Pipe(duplex)

    def RawValue(self, typecode_or_type: Any, *args: Any) -> Any:
        """Returns a shared object"""
        return _ours("sharedctypes").RawValue(typecode_or_type, *args)

    def RawArray(self, typecode_or_type: Any, size_or_initializer: Any) -> Any:
        """Returns a shared array"""
        return _ours("sharedctypes").RawArray(typecode_or_type, size_or_initializer)

    def Value(self, typecode_or_type: Any, *args: Any, lock: Any = True) -> Any:
        """Returns a synchronized shared object"""
        return _ours("sharedctypes").Value(typecode_or_type, *args, lock=lock, ctx=self.get_context())

    def Array(self, typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True) -> Any:
        """Returns a synchronized shared array"""
        return _ours("sharedctypes").Array(
            typecode_or_type, size_or_initializer, lock=lock, ctx=self.get_context()
        )

    def Manager(self) -> Any:
        """Returns a manager associated with a running server process"""
        manager = _ours("managers").SyncManager(ctx=self.get_context())
        manager.start()
        return manager

    def Pool(
        self,
        processes: int | None = None,
        initializer: Any = None,
        initargs: Any = (),
        maxtasksperchild: int | None = None,
        **options: Any,
    ) -> Any:
        """Returns a process pool object"""
        return _ours("pool").Pool(
            processes, initializer, initargs, maxtasksperchild, context=self.get_context(), **options
        )


class BaseContext(_Queues, _std.BaseContext):
    """Base of the contexts."""


class _Concrete(BaseContext):
    def get_context(self, method: str | None = None) -> Any:
        return self if method is None else _concrete(method)


class Process(_std.Process):
    """A process, started by whichever method is chosen at that time."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _default_context.get_context().Process._Popen(process_obj)


class ForkProcess(_std.ForkProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _ours("popen_fork").Popen(process_obj)


class SpawnProcess(_std.SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _ours("popen_spawn_posix").Popen(process_obj)


class ForkServerProcess(_std.ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _ours("popen_forkserver").Popen(process_obj)


class ForkContext(_Concrete, _std.ForkContext):
    Process = ForkProcess


class SpawnContext(_Concrete, _std.SpawnContext):
    Process = SpawnProcess


class ForkServerContext(_Concrete, _std.ForkServerContext):
    Process = ForkServerProcess


class DefaultContext(BaseContext, _std.DefaultContext):
    """The context behind the package's functions; its state is the standard library's default context."""

    Process = Process

    def __init__(self, context: Any = None) -> None:
        pass

    def get_context(self, method: str | None = None) -> Any:
        if method is None:
            method = _std._default_context.get_context()._name  # type: ignore[attr-defined]
        return _concrete(method)

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        _std._default_context.set_start_method(method, force)

    def get_start_method(self, allow_none: bool = False) -> Any:
        return _std._default_context.get_start_method(allow_none)

    def get_all_start_methods(self) -> list[str]:
        return _std._default_context.get_all_start_methods()


_concrete_contexts: dict[str, Any] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
}
_default_context = DefaultContext()


def _concrete(method: str) -> Any:
    try:
        context = _concrete_contexts[method]
    except KeyError:
        raise ValueError(f"cannot find context for {method!r}") from None
    context._check_available()
    return context


def _force_start_method(method: str) -> None:
    _std._force_start_method(method)


def __getattr__(name: str) -> Any:
    return getattr(_std, name)
