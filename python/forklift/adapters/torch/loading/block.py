"""The memory that a loader shares with one worker: tasks for it, counters, and its random states.

Nobody locks it. The loader writes a task and then releases the worker's semaphore, which orders the two. The
counters have one writer, the worker. A saved random state is read only once the batch that it belongs to has
arrived, and there are enough places that the worker has not begun to write over it by then.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

from forklift.multiprocessing import sharedctypes

__all__ = ["Block", "Shape"]

# The words at the beginning. All but the first are the worker's. MAKING: the batch that it is making, and 1.
STOP, BATCHES, BUSY_NS, BLOCKED_NS, SENDING_NS, BYTES, COPIED, LARGEST, MAKING = range(9)
_HEAD = 10

# The second word of a task: how many indices follow, or one of these.
RANGE, ONE, NONE, MESSAGE, RESUME, LEAVE = range(-1, -7, -1)
_ORDERS = {"resume": RESUME, "leave": LEAVE}


class Shape(NamedTuple):
    """How many tasks a block holds, how many indices a task, how many random states and their bytes."""

    tasks: int
    indices: int
    states: int
    state_bytes: int

    @property
    def task_words(self) -> int:
        return 2 + max(2, self.indices)

    @property
    def state_words(self) -> int:
        return 2 + -(-self.state_bytes // 8)


class Block:
    """One worker's block. It can be an argument of a process."""

    def __init__(self, shape: Shape) -> None:
        # One more state than the ring has: that of the beginning of the epoch.
        words = _HEAD + shape.tasks * shape.task_words + (shape.states + 1) * shape.state_words
        self._map(shape, sharedctypes.RawArray("q", words))

    def _map(self, shape: Shape, memory: Any) -> None:
        self._shape, self._memory = shape, memory
        self._bytes = memoryview(memory).cast("B")
        self.words = self._bytes.cast("q")
        self._states_at = _HEAD + shape.tasks * shape.task_words

    def __getstate__(self) -> Any:
        return self._shape, self._memory

    def __setstate__(self, state: Any) -> None:
        self._map(*state)

    # --- tasks

    def write_task(self, turn: int, number: int, index: Any) -> bool:
        """Write the worker's task number `turn`. False if the index has to be sent as a message."""
        at = _HEAD + turn % self._shape.tasks * self._shape.task_words
        words = self.words
        words[at] = number
        kind = type(index)
        if kind is range:
            words[at + 1], words[at + 2], words[at + 3] = RANGE, index.start, index.stop
        elif kind is list and len(index) <= self._shape.indices and set(map(type, index)) == {int}:
            try:
                words[at + 2 : at + 2 + len(index)] = array("q", index)
            except OverflowError:
                words[at + 1] = MESSAGE
                return False
            words[at + 1] = len(index)
        elif kind is int and -(1 << 63) <= index < 1 << 63:
            words[at + 1], words[at + 2] = ONE, index
        elif index is None:
            words[at + 1] = NONE
        else:
            words[at + 1] = MESSAGE
            return False
        return True

    def write_order(self, turn: int, order: str) -> None:
        at = _HEAD + turn % self._shape.tasks * self._shape.task_words
        self.words[at + 1] = _ORDERS[order]

    def read_task(self, turn: int) -> tuple[int, int, Any]:
        """The number of the batch, the second word, and the index unless it is in a message."""
        at = _HEAD + turn % self._shape.tasks * self._shape.task_words
        words = self.words
        number, kind = words[at], words[at + 1]
        if kind >= 0:
            return number, kind, words[at + 2 : at + 2 + kind].tolist()
        if kind == RANGE:
            return number, kind, list(range(words[at + 2], words[at + 3]))
        return number, kind, words[at + 2] if kind == ONE else None

    # --- random states

    def save_state(self, turn: int, number: int, state: bytes) -> None:
        """Keep the state behind batch `number`. Turn 0 is the epoch's beginning, all others share a ring."""
        if len(state) > self._shape.state_bytes:
            return
        at = self._state_at(turn)
        self.words[at] = 0  # a reader that comes now finds nothing
        self._bytes[8 * (at + 2) : 8 * (at + 2) + len(state)] = state
        self.words[at + 1] = len(state)
        self.words[at] = number + 1

    def epoch_state(self) -> bytes | None:
        """The state in which the worker began the epoch."""
        return self._state(0)[1]

    def forget_states(self) -> None:
        for turn in range(self._shape.states + 1):
            self.words[self._state_at(turn)] = 0

    def latest_state(self, most: int) -> tuple[int, bytes | None]:
        """The latest state that belongs to a batch up to `most`, and that batch's number (-1: none)."""
        states = (self._state(turn) for turn in range(1, self._shape.states + 1))
        return max((each for each in states if each[0] <= most), key=lambda each: each[0], default=(-1, None))

    def _state_at(self, turn: int) -> int:
        place = 0 if turn == 0 else 1 + turn % self._shape.states
        return self._states_at + place * self._shape.state_words

    def _state(self, turn: int) -> tuple[int, bytes | None]:
        at = self._state_at(turn)
        number, length = self.words[at] - 1, self.words[at + 1]
        return number, None if number < 0 else bytes(self._bytes[8 * (at + 2) : 8 * (at + 2) + length])
