"""What runs in a rank: a process that ``spawn`` or ``start_processes`` has started.

A rank that is a fresh interpreter imports this module and little else, above all not torch. It unpickles the
function itself, so that an error in that is reported like any other.
"""

import os
import sys

from forklift import child_boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any
else:
    Any = object

__all__ = [
    "Begun",
    "PickledCall",
    "Place",
    "ReportWriter",
    "Setup",
    "own_object",
    "own_place",
    "received_place",
    "run_rank",
    "take_place",
]

# How long a rank whose parent is gone may clean up, after the KeyboardInterrupt that tells it. Twice this
# time, for a rank and its own ranks, is less than the two seconds in which all have to be gone
# (decisions/0164).
_LAST_SECONDS = 0.5

# While a call is unpickled: the objects that were pickled for this rank alone.
_own_objects: "list[Any]" = []


def run_rank(
    call: "Callable[[], tuple[Callable[..., object], Iterable[Any]]]",
    rank: int,
    report: "ReportWriter",
    setup: "Setup | None",
    begun: "Begun | None",
    place: "Place | None" = None,
) -> None:
    """Call the function with its rank and arguments. If an exception leaves it, report it and exit with 1."""
    global _place
    try:
        child_boot.soften_end(_LAST_SECONDS)
        _place = place
        if setup is not None:
            setup.apply()
        function, args = call()
        if begun is not None:
            begun.tell()
        function(rank, *args)
    except KeyboardInterrupt:
        pass  # from the terminal, or since the parent is gone: as in torch no failure
    except SystemExit:
        raise
    except BaseException as error:
        report.write(error)
        sys.exit(1)


# Tells forklift.multiprocessing._start.lifeline that a process with this target ends with its parent.
run_rank.ends_with_parent = True  # type: ignore[attr-defined]


class Place:
    """A rank's place in its group: the group's memory, from which forklift.collectives makes the Group.

    In a fresh interpreter the core is loaded only when the program asks for the group.
    """

    make_group: "Callable[[], Any] | None" = None  # of ranks on several nodes: forklift.cluster.node_group

    def __init__(self, rank: int, memory: Any = None, offered: "tuple[bytes, Any] | None" = None) -> None:
        self.rank = rank
        self._memory = memory
        self._offered = offered

    def memory(self) -> Any:
        if self._memory is None:
            assert self._offered is not None
            from forklift import _core

            self._memory = _core._claim_tensor(*self._offered)
        return self._memory

    def __reduce__(self) -> Any:
        # In the parent, for one child: from now on its end is noticed, even before it has joined.
        from multiprocessing import context

        from forklift import _core
        from forklift.multiprocessing._start.invitation import invitation_for

        invitation = invitation_for(context.get_spawning_popen())
        _core._expect_rank(self._memory, self.rank, *invitation.slot)
        return received_place, (invitation, self.rank, *_core._offer_tensor(self._memory, *invitation.slot))


def received_place(_joined: None, rank: int, meta: bytes, handle: Any) -> Place:
    """In the child: the place that the parent has offered."""
    return Place(rank, offered=(meta, handle))


_place: "Place | None" = None


def own_place() -> "Any":
    """This process's Place, if it is a rank; of a rank with others on other nodes a NodePlace."""
    return _place


def take_place(place: "Any") -> None:
    """Have `own_place` return this place. Its ``make_group`` makes the group."""
    global _place
    _place = place


class Setup:
    """What a rank does before it calls the function: its processors, its main thread's name."""

    def __init__(self, cpus: "set[int] | None", thread_name: "str | None") -> None:
        self._cpus = cpus
        self._thread_name = thread_name

    def apply(self) -> None:
        if self._cpus is not None:
            os.sched_setaffinity(0, self._cpus)
        if self._thread_name is not None:
            from forklift import _core

            _core.set_thread_name(self._thread_name)


class Begun:
    """Tells the parent that this rank has its arguments (forklift.multiprocessing._ranks.files.Turn)."""

    def __init__(self, descriptor: Any) -> None:
        self._fd = _number(descriptor)

    def tell(self) -> None:
        os.close(self._fd)


def _number(descriptor: Any) -> int:
    """The number of a descriptor that the parent has passed on (`descriptor_for_child`)."""
    number: int = descriptor if isinstance(descriptor, int) else int(descriptor.detach())
    os.set_inheritable(number, False)  # not for the programs that the rank executes
    return number


class PickledCall:
    """The function and its arguments: the pickle that all ranks share, and this rank's own objects."""

    def __init__(self, pickled: Any, size: int, own: "list[Any]") -> None:
        self._pickled = pickled  # bytes, or the descriptor of a file in memory
        self._size = size
        self._own = own

    def __call__(self) -> "tuple[Callable[..., object], Iterable[Any]]":
        import pickle

        _own_objects[:] = self._own
        try:
            if isinstance(self._pickled, bytes):
                found: Any = pickle.loads(self._pickled)
                return found  # type: ignore[no-any-return]
            import mmap

            fd = _number(self._pickled)
            try:
                with mmap.mmap(fd, self._size, prot=mmap.PROT_READ) as memory:
                    found = pickle.loads(memory)
            finally:
                os.close(fd)
            return found  # type: ignore[no-any-return]
        finally:
            _own_objects.clear()
            self._own = []


def own_object(index: int) -> Any:
    """An object of the pickle of which each rank has its own: a queue, a lock, a connection, a tensor."""
    return _own_objects[index]


class ReportWriter:
    """Writes the exception that ended a rank to where the parent finds it when the rank is gone.

    That is a file in memory, so that a report of any length neither waits for its reader nor stays behind. It
    holds two pickles: the traceback as text, as in torch's error files, and the pickled exception, which is
    empty if the exception cannot be pickled.
    """

    def __init__(self, descriptor: Any) -> None:
        self._fd = _number(descriptor)

    def write(self, error: BaseException) -> None:
        import pickle
        import traceback

        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        try:
            pickled = pickle.dumps(error)
        except Exception:
            pickled = b""
        try:
            with open(self._fd, "wb", closefd=False) as file:
                pickle.dump(text, file)
                pickle.dump(pickled, file)
        except OSError:  # the program has closed the descriptor, or there is no memory
            print(text, file=sys.stderr, end="", flush=True)
