"""Packs the tasks of a call into segments, in the thread that makes the call.

Arguments that are numbers, strings or None stay as they are. All others are pickled for each task by itself:
an argument that cannot be pickled, or unpickled, fails its own task only. An object goes to each node once,
for all tasks and workers, if it is frozen (`forklift.freeze`), if it is the function with what it refers to,
or if it is a large array that several items of a list refer to.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from forklift import _core
from forklift.cluster import tasks
from forklift.cluster.packing import LARGE, Packer, all_plain, in_arena
from forklift.cluster.segment import Segment, SharedObject
from forklift.errors import NotAcrossNodesError
from forklift.objects.frozen import FrozenDict, FrozenList, FrozenTuple

__all__ = ["Sender"]

# A function's pickle of at most so many bytes travels with each task to the worker: that is faster than a
# handle of memory, and the worker knows the function by it.
_SMALL_FUNCTION = 2048
_FROZEN = (FrozenDict, FrozenList, FrozenTuple)
_SHARED_MODE = 1  # of a block of memory that all may write


class Sender:
    """Packs tasks of one function. `items`: the list that the call was given; None: it was given none.

    ``borrows``: the caller waits for the results, so its arrays need not be copied before they are sent.
    """

    def __init__(self, core: Any, function: Any, items: Any, borrows: bool) -> None:
        self.function = function
        self._borrows = borrows
        self._core = core
        self._slots: list[SharedObject] = []
        self._packer = Packer(self._find)
        self._multiple = _several_times(items)
        self._made: dict[int, SharedObject] = {}
        self._head = self._pack_function(function)

    def _pack_function(self, function: Any) -> Any:
        fresh = not isinstance(function, (types.FunctionType, types.BuiltinFunctionType, type))
        data, buffers = Packer(self._refuse).pack(function)
        if not buffers and len(data) <= _SMALL_FUNCTION:
            return (data, fresh)
        return self._core.objects.share("fresh function" if fresh else "function", data, buffers)

    def segment(
        self, arguments: Any, style: int, job: Any, index: int, seconds: float, retries: int
    ) -> Segment:
        """One task. Raises what packing it raises."""
        if style == tasks.ITEM:
            plain = all_plain((arguments,))
        else:
            plain = style == tasks.CALL and type(arguments) is tuple and all_plain(arguments)
        if plain:
            return Segment(
                job, self._head, style, True, [index], [arguments], seconds=seconds, retries=retries
            )
        data, buffers, shared, size = self._pack(arguments)
        return Segment(
            job,
            self._head,
            style,
            False,
            [index],
            [data],
            buffers={0: buffers} if buffers else None,
            shared={0: shared} if shared else None,
            sizes=[size],
            seconds=seconds,
            retries=retries,
        )

    def segments(
        self,
        items: Any,
        starred: bool,
        chunk: int,
        begin: int,
        end: int,
        job: Any,
        seconds: float,
        retries: int,
    ) -> tuple[list[Segment], list[tuple[int, Exception]]]:
        """Tasks `begin` to `end` of a list's; and (index, exception) of those that cannot be packed."""
        if chunk == 1:
            style = tasks.STAR_ITEM if starred else tasks.ITEM
            arguments = list(items[begin:end])
            plain = _plain_tuples(arguments) if starred else all_plain(arguments)
        else:
            style = tasks.STAR_CHUNK if starred else tasks.CHUNK
            arguments = [list(items[at * chunk : (at + 1) * chunk]) for at in range(begin, end)]
            plain = all(_plain_tuples(each) if starred else all_plain(each) for each in arguments)
        if plain:
            span = range(begin, end)
            made = Segment(job, self._head, style, True, span, arguments, seconds=seconds, retries=retries)
            return [made], []
        return self._packed(arguments, style, begin, job, seconds, retries)

    def _packed(
        self, arguments: list[Any], style: int, begin: int, job: Any, seconds: float, retries: int
    ) -> tuple[list[Segment], list[tuple[int, Exception]]]:
        indices: list[int] = []
        pickles: list[bytes] = []
        sizes: list[int] = []
        buffers: dict[int, list[Any]] = {}
        shared: dict[int, list[SharedObject]] = {}
        failed: list[tuple[int, Exception]] = []
        for index, each in enumerate(arguments, begin):
            try:
                data, large, slots, size = self._pack(each)
            except Exception as error:
                failed.append((index, error))
                continue
            if large:
                buffers[len(indices)] = large
            if slots:
                shared[len(indices)] = slots
            indices.append(index)
            pickles.append(data)
            sizes.append(size)
        if not indices:
            return [], failed
        made = Segment(
            job,
            self._head,
            style,
            False,
            indices,
            pickles,
            buffers=buffers or None,
            shared=shared or None,
            sizes=sizes,
            seconds=seconds,
            retries=retries,
        )
        return [made], failed

    def _pack(self, arguments: Any) -> tuple[bytes, list[Any], list[SharedObject], int]:
        self._slots = []
        data, buffers = self._packer.pack(arguments)
        size = len(data) + sum(buffer.raw().nbytes for buffer in buffers)
        if not self._borrows:  # the caller may change the memory as soon as its call has returned
            buffers = [in_arena(buffer) for buffer in buffers]
        return data, buffers, self._slots, size

    # --- what goes to a node once

    def _find(self, obj: Any) -> Any:
        """The call that stands for an object in a task's pickle; None: the object is pickled."""
        if isinstance(obj, _FROZEN):
            return self._slot(self._core.objects.frozen(obj, "frozen", obj.to_python))
        numpy = sys.modules.get("numpy")
        if numpy is None or type(obj) is not numpy.ndarray:
            return None
        block = _core.block_under(obj)
        if block is not None and block.mode == _SHARED_MODE:
            raise _refusal()
        if block is not None and obj.nbytes >= LARGE and not obj.flags.writeable:
            return self._slot(self._core.objects.frozen(obj, "pickle", lambda: obj))
        if id(obj) not in self._multiple:
            return None
        if id(obj) not in self._made:
            data, buffers = Packer(self._refuse).pack(obj)
            self._made[id(obj)] = self._core.objects.share("pickle", data, buffers)
        return self._slot(self._made[id(obj)])

    def _slot(self, shared: SharedObject) -> Any:
        if shared not in self._slots:
            self._slots.append(shared)
        return (tasks.shared_object, (self._slots.index(shared),))

    def _refuse(self, obj: Any) -> None:
        """For what a function refers to: refuse memory that cannot be shared between nodes."""
        numpy = sys.modules.get("numpy")
        if numpy is not None and type(obj) is numpy.ndarray:
            block = _core.block_under(obj)
            if block is not None and block.mode == _SHARED_MODE:
                raise _refusal()


def _refusal() -> NotAcrossNodesError:
    return NotAcrossNodesError(
        "an array of forklift.share() is memory of this machine, which other nodes cannot write:"
        " pass a copy of it (array.copy()), or forklift.freeze(array) for one that tasks only read"
    )


def _plain_tuples(items: list[Any]) -> bool:
    return all(type(each) is tuple and all_plain(each) for each in items)


def _several_times(items: Any) -> dict[int, Any]:
    """The large arrays, by their ids, that several items of a list are, or have in them one level deep."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not items or all_plain(items[:1]):
        return {}
    seen: dict[int, Any] = {}
    several: dict[int, Any] = {}
    for item in items:
        for each in item if type(item) in (tuple, list) else (item,):
            if type(each) is numpy.ndarray and each.nbytes >= LARGE:
                if id(each) in seen:
                    several[id(each)] = each
                seen[id(each)] = each
    return several
