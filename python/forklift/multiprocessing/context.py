"""The standard library's contexts, with Forklift's queues, pools, shared values and processes.

All state (the start method, the current process, its children) is the standard library's. So setting the
start method in one of the two modules sets it in the other.
"""

# mypy: disable-error-code="no-any-return"
# (Classes come from modules that _module() imports by name, so their types are Any.)
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

from forklift.generic import Bases

TYPE_CHECKING = False
if TYPE_CHECKING:  # not at run time, since every fresh interpreter among the children imports this
    from collections.abc import Callable, Iterable, Sequence
    from multiprocessing.managers import SyncManager
    from multiprocessing.process import BaseProcess
    from typing import Any, ClassVar, Literal, TypeAlias, overload

    from forklift.cluster.mpi.context import MpiContext
    from forklift.cluster.ray_context import RayContext
    from forklift.multiprocessing import connection, pool, queues, synchronize
    from forklift.multiprocessing._typed import TypedConstructors

    _LockLike: TypeAlias = synchronize.Lock | synchronize.RLock
    _Rule: TypeAlias = str | None
else:
    Any = object
    TypedConstructors = object

__all__: tuple[str, ...] = ()
_modules: dict[str, Any] = {}


def _module(name: str) -> Any:
    """The module of this package with this relative name, imported when it is first used.

    An import statement here would take as long as making three locks: it reads the package's ``__path__``,
    which calls the package's ``__getattr__``.
    """
    module = _modules.get(name)
    if module is None:
        full = "forklift.multiprocessing" + name
        __import__(full)
        module = _modules[name] = sys.modules[full]
    return module


class _Constructors(TypedConstructors):
    """The constructors whose objects differ from the standard library's."""

    def get_context(self, method: str | None = None) -> Any:
        raise NotImplementedError

    def Queue(
        self, maxsize: int = 0, *, strict: bool = False, framework: str | None = None
    ) -> "queues.Queue[Any]":
        """A queue of objects, which holds at most ``maxsize`` of them if that is positive.

        Arrays travel through shared memory. ``strict``: ``put`` raises if an object cannot be pickled,
        instead of printing the traceback. ``framework``: whose arrays ``get`` returns ("numpy", "torch",
        "jax", "cupy", "forklift"). Methods: put, get, put_nowait, get_nowait, qsize, empty, full, close,
        join_thread; loan, aput and aget. See forklift.multiprocessing.queues.Queue.
        """
        return _module(".queues").Queue(maxsize, ctx=self.get_context(), strict=strict, framework=framework)

    def JoinableQueue(
        self,
        maxsize: int = 0,
        *,
        strict: bool = False,
        framework: str | None = None,
        redeliver: bool = False,
        tries: int = 0,
        dead_letters: "queues.Queue[Any] | None" = None,
        claims: int = 1024,
    ) -> "queues.JoinableQueue[Any]":
        """A Queue with ``task_done`` and ``join``, which waits until each object has been reported done.

        With ``redeliver=True`` an object comes back when its consumer ends before ``task_done``.
        See forklift.multiprocessing.queues.JoinableQueue.
        """
        return _module(".queues").JoinableQueue(
            maxsize,
            ctx=self.get_context(),
            strict=strict,
            framework=framework,
            redeliver=redeliver,
            tries=tries,
            dead_letters=dead_letters,
            claims=claims,
        )

    def SimpleQueue(self, *, framework: str | None = None) -> "queues.SimpleQueue[Any]":
        """A queue with put, get, empty and close, which holds 64 KB: ``put`` waits while it is full."""
        return _module(".queues").SimpleQueue(ctx=self.get_context(), framework=framework)

    def Lock(self) -> "synchronize.Lock":
        """A lock that one thread of one process holds at a time; it is taken over from a killed holder."""
        return _module(".synchronize").Lock(ctx=self.get_context())

    def RLock(self) -> "synchronize.RLock":
        """A lock that its holder may acquire again, and must release as often."""
        return _module(".synchronize").RLock(ctx=self.get_context())

    def Condition(self, lock: "_LockLike | None" = None) -> "synchronize.Condition":
        """A condition over ``lock`` (None: a new RLock): wait, notify, notify_all."""
        return _module(".synchronize").Condition(lock, ctx=self.get_context())

    def Semaphore(self, value: int = 1, *, recover: bool = False) -> "synchronize.Semaphore":
        """A counter that ``acquire`` decrements; ``recover``: the units of a dead process come back."""
        return _module(".synchronize").Semaphore(value, ctx=self.get_context(), recover=recover)

    def BoundedSemaphore(self, value: int = 1, *, recover: bool = False) -> "synchronize.BoundedSemaphore":
        """A Semaphore whose value never exceeds its initial value."""
        return _module(".synchronize").BoundedSemaphore(value, ctx=self.get_context(), recover=recover)

    def Event(self) -> "synchronize.Event":
        """A flag that processes can wait for: set, clear, is_set, wait."""
        return _module(".synchronize").Event(ctx=self.get_context())

    def Barrier(
        self, parties: int, action: "Callable[[], object] | None" = None, timeout: float | None = None
    ) -> "synchronize.Barrier":
        """A barrier at which ``parties`` threads of any processes wait until all have come."""
        return _module(".synchronize").Barrier(parties, action, timeout, ctx=self.get_context())

    def Pipe(
        self, duplex: bool = True
    ) -> "tuple[connection.Connection[Any, Any], connection.Connection[Any, Any]]":
        """Two connected ends: each sends and receives, or (receiver, sender) with duplex=False."""
        return _module(".connection").Pipe(duplex)

    if not TYPE_CHECKING:

        def RawValue(self, typecode_or_type, *args):
            """A ctypes object in shared memory without a lock, zeroed, then initialised with ``args``."""
            return _module(".sharedctypes").RawValue(typecode_or_type, *args)

        def RawArray(self, typecode_or_type, size_or_initializer):
            """A ctypes array in shared memory without a lock: of so many zeros, or a sequence's items."""
            return _module(".sharedctypes").RawArray(typecode_or_type, size_or_initializer)

        def Value(self, typecode_or_type, *args, lock=True):
            """A value in shared memory with a lock: a new RLock, the given one, or none (lock=False)."""
            return _module(".sharedctypes").make_value(typecode_or_type, args, lock, self.get_context())

        def Array(self, typecode_or_type, size_or_initializer, *, lock=True):
            """An array in shared memory with a lock: a new RLock, the given one, or none (lock=False)."""
            return _module(".sharedctypes").make_array(
                typecode_or_type, size_or_initializer, lock, self.get_context()
            )

    def Manager(self) -> "SyncManager":
        """A started manager: a process with lists, dictionaries and more, which are used through proxies."""
        manager: SyncManager = _module(".managers").SyncManager(ctx=self.get_context())
        manager.start()
        return manager

    def Pool(
        self,
        processes: int | None = None,
        initializer: "Callable[..., object] | None" = None,
        initargs: "Iterable[Any]" = (),
        maxtasksperchild: int | None = None,
        *,
        finalizer: "Callable[[], object] | None" = None,
        timeout: float | None = None,
        retries: int = 0,
        warm_spare: bool = False,
        max_memory: int | None = None,
        cpus: "Sequence[int | Sequence[int]] | None" = None,
        nested: bool = False,
        log: bool = False,
        insights: bool = False,
    ) -> "pool.Pool":
        """A pool of ``processes`` workers: apply, map, starmap, imap, imap_unordered, and ``..._async``.

        initializer(*initargs) is called in each worker when it begins; after ``maxtasksperchild`` tasks a
        worker is replaced. By keyword:

        finalizer    called in a worker that exits in good order
        timeout      seconds that a task may run before its worker is killed (TaskTimeoutError)
        retries      how often a task runs again after its worker died
        warm_spare   keep one more worker ready
        max_memory   bytes by which a worker may grow before it is replaced
        cpus         for each worker the number, or numbers, of the processors on which it runs
        nested       workers may have children
        log          this process's loggers handle the workers' log records
        insights     pool.insights() says where the workers' time goes

        ``timeout`` and ``retries`` are each call's defaults. See forklift.multiprocessing.pool.Pool.
        """
        return _module(".pool").Pool(
            processes,
            initializer,
            initargs,
            maxtasksperchild,
            context=self.get_context(),
            finalizer=finalizer,
            timeout=timeout,
            retries=retries,
            warm_spare=warm_spare,
            max_memory=max_memory,
            cpus=cpus,
            nested=nested,
            log=log,
            insights=insights,
        )


if TYPE_CHECKING:

    class _ContextBases(_Constructors, _std.BaseContext):  # type: ignore[misc]
        Process: ClassVar[type[BaseProcess]]

        @overload  # type: ignore[override]
        def get_context(self, method: Literal["fork"], *, fork_policy: _Rule = None) -> "ForkContext": ...
        @overload
        def get_context(self, method: Literal["spawn"], *, fork_policy: _Rule = None) -> "SpawnContext": ...
        @overload
        def get_context(
            self, method: Literal["forkserver"], *, fork_policy: _Rule = None
        ) -> "ForkServerContext": ...
        @overload
        def get_context(self, method: Literal["ray"], *, fork_policy: _Rule = None) -> RayContext: ...  # type: ignore[overload-overlap]
        @overload
        def get_context(self, method: Literal["mpi"], *, fork_policy: _Rule = None) -> MpiContext: ...  # type: ignore[overload-overlap]
        @overload
        def get_context(self, method: str | None = None, *, fork_policy: _Rule = None) -> "BaseContext": ...
        def get_context(self, method: str | None = None, *, fork_policy: _Rule = None) -> Any: ...
else:
    _ContextBases = Bases(_Constructors, _std.BaseContext)


class BaseContext(_ContextBases):
    """The base of the contexts."""


class _Concrete(BaseContext):
    if not TYPE_CHECKING:

        def get_context(self, method=None, *, fork_policy=None):
            """The context of a start method; None: this one. For fork_policy see forklift.set_fork_policy."""
            context = self if method is None else _concrete(method)
            return context if fork_policy is None else _with_policy(context, fork_policy)


class _Starting:
    """What processes can do at their start beyond the standard library's."""

    if TYPE_CHECKING:
        _popen: Any

    def start(self, *, timeout: float | None = None, fork_policy: str | None = None) -> None:
        """Start the process.

        timeout      notice a child that hangs within so many seconds: `ForkHangError` from here, if a forked
                     child does not come to its ``run()``; later from ``join()``. It has the child's stacks.
        fork_policy  "warn", "error" or "allow": see forklift.set_fork_policy

        ValueError for a time-out that is not positive, and for another policy.
        """
        start = super().start  # type: ignore[misc]
        if timeout is None and fork_policy is None:
            start()
        else:
            _module("._start.options").start_with(start, self, timeout, fork_policy)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process has ended, or ``timeout`` seconds. ForkHangError: see start."""
        super().join(timeout)  # type: ignore[misc]
        hang = getattr(self._popen, "hang", None)
        if hang is not None:
            raise hang


class Process(_Starting, _std.Process):
    """A process, started by the start method that is set when it starts."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _default_context.get_context().Process._Popen(process_obj)  # type: ignore[attr-defined]


class ForkProcess(_Starting, _std.ForkProcess):
    _fork_policy: "str | None" = None  # of the context

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _module(".popen_fork").Popen(process_obj)


class SpawnProcess(_Starting, _std.SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _module(".popen_spawn_posix").Popen(process_obj)


class ForkServerProcess(_Starting, _std.ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        _module("._start.zygote").begin()  # before this process imports what it asks with
        return _module(".popen_forkserver").Popen(process_obj)


class ForkContext(_Concrete, _std.ForkContext):  # type: ignore[misc]
    Process = ForkProcess


class SpawnContext(_Concrete, _std.SpawnContext):  # type: ignore[misc]
    Process = SpawnProcess


class ForkServerContext(_Concrete, _std.ForkServerContext):  # type: ignore[misc]
    Process = ForkServerProcess


class DefaultContext(BaseContext, _std.DefaultContext):  # type: ignore[misc]
    """The context behind the package's functions; its state is the standard library's default context."""

    Process = Process

    def __init__(self, context: Any = None) -> None:
        pass

    if not TYPE_CHECKING:

        def get_context(self, method=None, *, fork_policy=None):
            """The context of a start method: "fork", "spawn" or "forkserver"; None: the one that is set.

            ``fork_policy``: "warn", "error" or "allow", for all processes that the context forks, those of
            its pools included; see forklift.set_fork_policy.
            """
            if method is None:
                method = _std._default_context.get_context()._name
            context = _concrete(method)
            return context if fork_policy is None else _with_policy(context, fork_policy)

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        if method in _CLUSTERS:
            raise ValueError(f"{method!r} is no start method: use get_context({method!r}).Pool(...)")
        _std._default_context.set_start_method(method, force)

    def get_start_method(self, allow_none: bool = False) -> str:
        return _std._default_context.get_start_method(allow_none)

    def get_all_start_methods(self) -> list[str]:
        return _std._default_context.get_all_start_methods()


_concrete_contexts: dict[str, Any] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
}
_CLUSTERS = {"ray": "forklift.cluster", "mpi": "forklift.cluster"}  # contexts that are no start methods
_default_context: DefaultContext = DefaultContext()  # its type is written out for mypy


def _concrete(method: str) -> Any:
    if method in _CLUSTERS:
        return __import__(_CLUSTERS[method], fromlist=["context"]).context(method)
    if method not in _concrete_contexts:
        raise ValueError(f"cannot find context for {method!r}")
    _concrete_contexts[method]._check_available()
    return _concrete_contexts[method]


def _with_policy(context: Any, policy: str) -> Any:
    """A context as the given one, whose forks follow a policy. Other start methods do not fork."""
    from forklift.fork.policy import check_policy

    check_policy(policy)
    if not isinstance(context, ForkContext):
        return context
    made: Any = type(context)()
    made.Process = type("ForkProcess", (ForkProcess,), {"_fork_policy": policy, "__module__": __name__})
    return made


def _force_start_method(method: str) -> None:
    _std._force_start_method(method)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_std, name)
