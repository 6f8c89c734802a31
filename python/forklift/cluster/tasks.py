"""What the workers of a node run: tasks whose functions, arguments and results are packed.

The node agent passes packed objects through without looking into them, so the program's objects are made in
the driver and in the workers only. A task's exception is an answer, too: `Description` of the local pool.

The node's workers import this module, so it imports neither ray nor mpi4py.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from multiprocessing import process
from typing import Any

import cloudpickle  # type: ignore[import-untyped,unused-ignore]

from forklift.cluster.packing import PLAIN, Packer, all_plain, array_of, unpack
from forklift.multiprocessing._pool import workers as _local
from forklift.multiprocessing._pool.label import shortened

__all__ = ["begin", "finish", "run_packed", "run_plain", "run_rank", "run_target", "shared_object"]

# How many functions a worker keeps.
_MOST_KEPT = 64

# How a task's arguments are passed to its function: the numbers of Style (bindings/pool/task.h).
CALL, CALL_NAMED, ITEM, STAR_ITEM, CHUNK, STAR_CHUNK = range(6)

_kept: dict[Any, Any] = {}
_shared: list[Any] = []  # the shared objects of the task that is being unpacked
_packer: Packer | None = None
_finalizer: Callable[[], object] | None = None
_advice = ""  # what to do if the node does not have the program's modules


def begin(initializer: Any, finalizer: Any, base: int, authkey: bytes, advice: str) -> None:
    """Initialise a worker. `base` is added to its number, since each node's workers are numbered from 0.

    ``initializer`` packs the program's initializer and its arguments, ``finalizer`` the program's finalizer.
    """
    global _advice, _finalizer
    process.current_process().authkey = authkey
    _advice = advice
    _local._index = base + _local.worker_id()
    if finalizer is not None:
        _finalizer = unpack(*finalizer)
    if initializer is not None:
        function, arguments = unpack(*initializer)
        function(*arguments)


def finish() -> None:
    """Run the program's finalizer in a worker that exits in good order."""
    if _finalizer is not None:
        _finalizer()


def shared_object(place: int) -> Any:
    """The shared object of this task with this number. Named by the pickles that the driver makes."""
    shared = _shared[place]
    return unpack(*shared) if type(shared) is tuple else shared


def run_plain(task: Any) -> Any:
    """Run a task whose arguments travel as they are: (function, style, arguments)."""
    head, style, arguments = task
    try:
        function = _function(head)
    except Exception as error:
        return (_describe(_explained(error)),)
    return _call(function, style, arguments)


def run_packed(task: Any) -> Any:
    """Run a task whose arguments are packed: (function, style, pickle, buffers, shared objects)."""
    head, style, data, buffers, shared = task
    try:
        function = _function(head)
    except Exception as error:
        return (_describe(_explained(error)),)
    try:
        _shared[:] = shared or ()
        arguments = unpack(data, buffers)
    except Exception as error:
        return (_describe(error),)
    finally:
        _shared.clear()
    return _call(function, style, arguments)


def run_target(packed: Any, ends: Any, authkey: bytes) -> None:
    """The main function of a process of the cluster. An exception's description goes to the queue `ends`."""
    process.current_process().authkey = authkey
    try:
        target, arguments, named = unpack(*packed)
        target(*arguments, **named)
    except Exception as error:
        ends.put(_describe(error))
        raise


def run_rank(packed: Any, ends: Any, authkey: bytes, place: Any, layout: Any, rank: int, queues: Any) -> None:
    """The main function of a rank; as `run_target`. `place`: its place among the ranks of its node."""
    from forklift.cluster.node_group import NodePlace
    from forklift.multiprocessing._ranks.rank import take_place

    take_place(NodePlace(place, layout, rank, queues))
    process.current_process().authkey = authkey
    try:
        target, arguments = unpack(*packed)
        target(rank, *arguments)
    except Exception as error:
        ends.put(_describe(error))
        raise


# Tells forklift.multiprocessing._start.lifeline that these processes end with their actor.
run_target.ends_with_parent = run_rank.ends_with_parent = True  # type: ignore[attr-defined]


def _function(head: Any) -> Any:
    """The function of a task; `head`: (its key, its pickle, its buffers, whether each task gets a copy).

    Without a key the pickle is the key.
    """
    key, data, buffers, fresh = head
    if key is None:
        key = data
    function = _kept.get(key)
    if function is None:
        function = unpack(data, buffers)
        if not fresh:
            if len(_kept) >= _MOST_KEPT:
                del _kept[next(iter(_kept))]
            _kept[key] = function
    return function


def _call(function: Any, style: int, arguments: Any) -> Any:
    """The answer to a call: a plain value, a list of plain values, a pickle, a pickle and its buffers as a
    tuple of two, or the description of an exception as a tuple of one.
    """
    place, item = 0, None
    try:
        if style == ITEM:
            item = (arguments,)
            value = function(arguments)
        elif style == STAR_ITEM:
            item = (arguments,)
            value = function(*arguments)
        elif style == CALL:
            value = function(*arguments)
        elif style == CALL_NAMED:
            value = function(*arguments[0], **arguments[1])
        else:
            value = []
            for place, each in enumerate(arguments):  # noqa: B007 (names the item in an exception)
                item = (each,)
                value.append(function(*each) if style == STAR_CHUNK else function(each))
            return value if all_plain(value) else _packed(value)
    except Exception as error:
        return (_describe(error, place, item),)
    return value if type(value) in PLAIN else _packed(value)


def _packed(value: Any) -> Any:
    global _packer
    packer = _packer or Packer()
    _packer = None  # packing may run the program's code, and that may come here again
    try:
        data, buffers = packer.pack(value)
    except Exception as reason:
        return (_local.describe_unsendable(reason, value),)
    _packer = packer
    return (data, [array_of(each) for each in buffers]) if buffers else data


def _describe(error: Exception, place: int = 0, item: tuple[Any] | None = None) -> _local.Description:
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # without the frame of this module
    if type(error).__module__ == "__main__":
        # The class is the driver's, which pickle does not find by its name here.
        try:
            shown_item = None if item is None else shortened(item[0])
            return (cloudpickle.dumps(error), _local.text_of(error), _local.shown(error), place, shown_item)
        except Exception:
            pass
    return _local.describe(error, place, item)


def _explained(error: Exception) -> Exception:
    """The exception, extended by the probable reason why this node does not find the function."""
    if not isinstance(error, (AttributeError, ImportError)):
        return error
    found = type(error)(
        f"{error}: node {socket.gethostname()} does not have this function{_advice and f' ({_advice})'}"
    )
    found.__cause__ = error
    return found
