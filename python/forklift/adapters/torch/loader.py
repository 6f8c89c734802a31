"""A DataLoader whose batches are made in shared memory.

    from forklift.adapters.torch import DataLoader     # instead of: from torch.utils.data import DataLoader

It is torch's DataLoader, with the same arguments, order and random numbers, over Forklift's processes. The
batches are collated where they stay: in the arena. See docs/semantics.md for what is more, and what differs.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch.utils.data
from torch.utils.data.dataloader import IterDataPipe, MapDataPipe

from forklift.adapters.torch.loading import state
from forklift.adapters.torch.loading.iterator import OwnIterator, WorkersIterator
from forklift.adapters.torch.loading.journal import Journal
from forklift.adapters.torch.loading.report import Report
from forklift.multiprocessing import context as _contexts

__all__ = ["DataLoader"]

_Base: Any = torch.utils.data.DataLoader
_torchs_context: Any = _Base.multiprocessing_context


class DataLoader(_Base):  # type: ignore[misc]
    """torch.utils.data.DataLoader over Forklift's processes. By keyword, besides torch's arguments:

    prefetch_bytes     bytes that the batches made in advance may have, besides the limit in batches that
                       ``prefetch_factor`` sets; one batch is always permitted
    on_worker_death    "raise": torch's RuntimeError, at once; "retry": a new worker makes the batches that
                       the dead one had not sent, with the same random numbers

    ``multiprocessing_context`` may be any context or start method; Forklift's of the same method is used.
    """

    _iterator: Any

    def __init__(
        self,
        *args: Any,
        prefetch_bytes: int | None = None,
        on_worker_death: str = "raise",
        **named: Any,
    ) -> None:
        if prefetch_bytes is not None and prefetch_bytes <= 0:
            raise ValueError(f"prefetch_bytes should be positive, but got prefetch_bytes={prefetch_bytes}")
        if on_worker_death not in ("raise", "retry"):
            raise ValueError(
                f'on_worker_death should be "raise" or "retry", but got on_worker_death={on_worker_death!r}'
            )
        self.prefetch_bytes = prefetch_bytes
        self.on_worker_death = on_worker_death
        self._journal = Journal()
        self._saved: dict[str, Any] | None = None
        super().__init__(*args, **named)
        if not hasattr(self, "in_order"):
            self.in_order = True  # torch before 2.6
        if self._is_pipe() and (prefetch_bytes is not None or on_worker_death != "raise"):
            raise ValueError("DataPipes are read by torch's own workers, which have no such option")

    @property
    def multiprocessing_context(self) -> Any:
        """The context that the program gave, as Forklift's of the same start method."""
        return _torchs_context.fget(self)

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        _torchs_context.fset(self, context)  # which checks it
        given = _torchs_context.fget(self)
        if given is not None and not isinstance(given, _contexts.BaseContext):
            _torchs_context.fset(self, _contexts._concrete(given.get_start_method()))

    def worker_context(self) -> Any:
        """The context in which workers are started."""
        return self.multiprocessing_context or _contexts._default_context.get_context()

    def _is_pipe(self) -> bool:
        return isinstance(self.dataset, (IterDataPipe, MapDataPipe))

    def _get_iterator(self) -> Any:
        if self._is_pipe():
            if self.multiprocessing_context is None and self.num_workers > 0:
                self.multiprocessing_context = self.worker_context()
            return super()._get_iterator()
        saved, self._saved = self._saved, None
        if self.num_workers == 0:
            return OwnIterator(self, saved)
        self.check_worker_number_rationality()
        return WorkersIterator(self, saved)

    # --- what torch's has not

    def report(self) -> Report:
        """Where the time went since the loader was made, over all its epochs. It can be printed."""
        return self._journal.report()

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iterator stands, for load_state_dict() of a loader that was made in the same way.

        Taken in mid-epoch, after ``break`` too, it leads to the batch behind the last one that the program
        has got; between two epochs, to the beginning of the next one.
        """
        self._refuse_pipes()
        return self._saved or self._journal.state() or state.between_epochs(self)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Have the next iterator go on where state_dict() was taken: the same batches in the same order.

        In order, the workers' random states are restored, too. ValueError if the loader was made in another
        way, as far as that can be told.
        """
        self._refuse_pipes()
        state.check(self, saved)
        if self._iterator is not None:
            self._iterator.shut_down()
            self._iterator = None
        self._journal.forget()
        if saved["open"]:
            self._saved = saved
        else:
            self._saved = None
            state.restore_generators(self, saved["generators"])

    def _refuse_pipes(self) -> None:
        if self._is_pipe():
            raise TypeError("DataPipes are read by torch's own workers, whose state is not known")


def _signature() -> inspect.Signature:
    """torch's constructor's, with the arguments that are only ours."""
    theirs, ours = (inspect.signature(each.__init__).parameters.values() for each in (_Base, DataLoader))
    more = [each for each in ours if each.kind is each.KEYWORD_ONLY]
    return inspect.Signature([*theirs, *more])


DataLoader.__init__.__signature__ = _signature()  # type: ignore[attr-defined]
