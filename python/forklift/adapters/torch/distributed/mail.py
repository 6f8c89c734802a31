"""send and recv between the ranks of one machine: each rank has an inbox, a queue into which the others put.

A message is the sender's rank, the tag and the bytes, which are copied into shared memory by the sender and
out of it by the receiver. Messages of one sender with one tag are received in the order in which they were
sent. A send is over when its message is in the inbox.

Whoever waits for a message takes what is in the inbox and gives it to the receives that were posted, in
their order. Thread safety: yes.
"""

from __future__ import annotations

import queue
import threading
import time
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch.distributed import DistBackendError

from forklift import _core
from forklift.adapters.torch.distributed.meeting import Peer, start_of
from forklift.adapters.torch.distributed.work import seconds_of
from forklift.errors import NotAcrossNodesError, PeerDiedError

__all__ = ["Mail", "Receipt"]

# How often one who waits for a message, or sends, looks whether the other rank lives.
_LOOK_S = 0.2


class _Message(NamedTuple):
    source: int
    tag: int
    content: Any  # forklift.Tensor of bytes


def _bytes_of(x: Any) -> Any:
    return x.detach().contiguous().reshape(-1).view(torch.uint8)


class Mail:
    """``inboxes`` and ``peers``: of the ranks on this machine, this one's at ``here``."""

    def __init__(self, rank: int, peers: list[Peer], inboxes: list[Any], timeout: float) -> None:
        self._rank = rank
        self._peers = {peer.rank: peer for peer in peers}
        self._inboxes: dict[int, Any] = {peer.rank: box for peer, box in zip(peers, inboxes, strict=True)}
        self._timeout = timeout
        self._lock = threading.Lock()  # of the two lists
        self._pump = threading.Lock()  # held by the thread that takes messages
        self._posted: list[Receipt] = []
        self._arrived: list[_Message] = []
        self._looked: dict[int, float] = {}

    def send(self, x: Any, destination: int, tag: int) -> None:
        """PeerDiedError: the other rank's process has ended."""
        self._only_here(destination)
        now = time.monotonic()
        if now > self._looked.get(destination, 0.0) + _LOOK_S:
            self._looked[destination] = now
            self.check(destination)
        source = _bytes_of(x)
        content = _core.empty((source.numel(),), "uint8")
        if source.numel():
            torch.from_dlpack(content).copy_(source)
        self._inboxes[destination].put(_Message(self._rank, tag, content)[:])

    def post(self, x: Any, source: int | None, tag: int) -> Receipt:
        """Receive from a rank, or from any one: the Receipt is the Work."""
        if source is not None:
            self._only_here(source)
        receipt = Receipt(self, x, source, tag)
        with self._lock:
            for index, message in enumerate(self._arrived):
                if receipt.takes(message):
                    del self._arrived[index]
                    break
            else:
                self._posted.append(receipt)
                return receipt
        receipt.deliver(message)
        return receipt

    def _only_here(self, rank: int) -> None:
        if rank not in self._peers:
            raise NotAcrossNodesError(
                f"rank {rank} is on another machine, and send and recv are of one machine: use broadcast in "
                "a group of the two ranks, or the backend gloo"
            )

    def pump(self, receipt: Receipt, timeout: float | None) -> None:
        """Take messages until the receipt is over, at most for so long. 0: those that are there."""
        limit = self._timeout if timeout is None else timeout
        end = time.monotonic() + limit
        while not receipt.over():
            left = end - time.monotonic()
            if not self._pump.acquire(timeout=max(min(left, _LOOK_S), 0.0)):
                if left <= 0:
                    return
                continue
            try:
                if receipt.over():
                    return
                message = self._next(max(min(left, _LOOK_S), 0.0))
                if message is None and left > 0:
                    self._look(receipt)
            finally:
                self._pump.release()
            if message is None and left <= 0:
                return

    def _next(self, timeout: float) -> _Message | None:
        try:
            found = self._inboxes[self._rank].get(True, timeout) if timeout > 0 else self._now()
        except queue.Empty:
            return None
        message = _Message(*found)
        with self._lock:
            for index, receipt in enumerate(self._posted):
                if receipt.takes(message):
                    del self._posted[index]
                    break
            else:
                self._arrived.append(message)
                return message
        receipt.deliver(message)
        return message

    def _now(self) -> Any:
        return self._inboxes[self._rank].get(False)

    def _look(self, receipt: Receipt) -> None:
        """End a receipt whose message cannot come any more."""
        sources = [receipt.source] if receipt.source is not None else [*self._peers]
        dead = [rank for rank in sources if rank != self._rank and not self._lives(rank)]
        if not dead or (receipt.source is None and len(dead) < len(self._peers) - 1):
            return
        # What a rank has sent before its end is in the inbox by now.
        while not receipt.over() and self._next(0) is not None:
            pass
        if not receipt.over():
            receipt.fail(PeerDiedError(self._died(dead[0])))

    def check(self, rank: int) -> None:
        if rank != self._rank and not self._lives(rank):
            raise PeerDiedError(self._died(rank))

    def _lives(self, rank: int) -> bool:
        peer = self._peers[rank]
        return start_of(peer.pid) == peer.start

    def _died(self, rank: int) -> str:
        return f"rank {rank} (pid {self._peers[rank].pid}) has ended: it neither sends nor receives any more"

    def withdraw(self, receipt: Receipt) -> None:
        with self._lock:
            if receipt in self._posted:
                self._posted.remove(receipt)

    def close(self) -> None:
        for inbox in self._inboxes.values():
            inbox.close()


class Receipt(torch.distributed.Work):  # type: ignore[misc]  # torch has no types here
    """A receive. It goes on while somebody waits for it, or for another one of its group."""

    def __init__(self, mail: Mail, x: Any, source: int | None, tag: int) -> None:
        super().__init__()
        self._mail = mail
        self._x = x
        self.source = source
        self._tag = tag
        self._over = False
        self._error: BaseException | None = None
        self._from = -1
        self._future: Any = None

    def over(self) -> bool:
        return self._over

    def takes(self, message: _Message) -> bool:
        return message.tag == self._tag and self.source in (None, message.source)

    def deliver(self, message: _Message) -> None:
        self._from = message.source
        content = torch.from_dlpack(message.content)
        wanted = self._x.numel() * self._x.element_size()
        if content.numel() != wanted:
            self.fail(
                ValueError(
                    f"rank {message.source} has sent {content.numel()} bytes, and recv was called with a "
                    f"tensor of {wanted}: {tuple(self._x.shape)} of {self._x.dtype}"
                )
            )
            return
        with torch.no_grad():
            self._x.detach().copy_(content.view(self._x.dtype).view(self._x.shape))
        self._over = True

    def fail(self, error: BaseException) -> None:
        self._mail.withdraw(self)
        self._error = error
        self._over = True

    def wait(self, timeout: timedelta | None = None) -> bool:
        """PeerDiedError: the sender has ended. DistBackendError: nothing came in time."""
        self._mail.pump(self, seconds_of(timeout))
        if not self._over:
            whom = "any rank" if self.source is None else f"rank {self.source}"
            raise DistBackendError(f"recv: nothing with tag {self._tag} has come from {whom} in time")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        if not self._over:
            self._mail.pump(self, 0)
        return self._over

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Any:
        return self._error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[Any]:
        return [self._x]

    def source_rank(self) -> int:
        return self._from

    def _source_rank(self) -> int:
        return self._from

    def get_future(self) -> Any:
        """The tensor, later; a thread waits for it."""
        if self._future is None:
            base = torch.futures.Future()
            self._future = base.then(self._value)
            threading.Thread(target=base.set_result, args=(None,), daemon=True).start()
        return self._future

    def _value(self, _base: Any) -> list[Any]:
        self.wait()
        return [self._x]
