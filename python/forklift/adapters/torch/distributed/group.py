"""The process group: the methods that torch.distributed and DistributedDataParallel call.

torch calls them with lists of tensors and an object of options. Of the options the reduction, the root, the
time-out and ``asyncOp`` count (torch 2.7 and later say by it whether the call has to be over when it
returns; earlier ones always wait for the Work).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from forklift import _core
from forklift.adapters.torch.distributed import meeting
from forklift.adapters.torch.distributed.lists import collect, equal_parts, exchange, flat, spread
from forklift.adapters.torch.distributed.machines import TwoSteps
from forklift.adapters.torch.distributed.mail import Mail
from forklift.adapters.torch.distributed.mpi import Lane
from forklift.adapters.torch.distributed.ranks import Collectives, Ranks
from forklift.adapters.torch.distributed.running import Action, Runner
from forklift.adapters.torch.distributed.work import done

__all__ = ["ForkliftProcessGroup", "create"]

_NAMES = {
    "SUM": "sum",
    "AVG": "mean",
    "PRODUCT": "product",
    "MIN": "min",
    "MAX": "max",
    "BAND": "and",
    "BOR": "or",
    "BXOR": "xor",
}
_OPS = {int(getattr(dist.ReduceOp, name)): op for name, op in _NAMES.items()}


def create(opts: Any, _more: Any = None) -> ForkliftProcessGroup:
    """What torch calls for the name "forklift": meets the other ranks."""
    met = meeting.meet(opts.store, opts.group_rank, opts.group_size, opts.timeout)
    _core._torch.meet()  # so that tensors can be moved into shared memory; it makes a domain if there is none
    return ForkliftProcessGroup(met, opts)


def _collectives(met: meeting.Meeting) -> Collectives:
    here = Ranks(met.core, met.counts, [peer.rank for peer in met.here])
    if len(met.machines) == 1:
        return here
    import mpi4py.MPI  # noqa: F401  # at all ranks: to begin with MPI is a collective call

    between = Lane(met.lanes[here.rank]) if here.rank < len(met.lanes) else None
    return TwoSteps(here, met.rank, met.machines, between)


def _op_of(opts: Any) -> str:
    op = opts.reduceOp
    name = _OPS.get(int(getattr(op, "op", op)))
    if name is None:
        raise NotImplementedError(
            f"the backend forklift has no reduction {op}: use one of {', '.join(_NAMES)}"
        )
    return name


class ForkliftProcessGroup(dist.ProcessGroup):  # type: ignore[misc]  # torch has no types here
    """The ranks of a group on CPU tensors. Made by ``torch.distributed.init_process_group("forklift")``."""

    def __init__(self, met: meeting.Meeting, opts: Any) -> None:
        super().__init__(opts.group_rank, opts.group_size)
        self._name = str(opts.group_id)
        self._timeout: float = opts.timeout.total_seconds()
        self._ranks = _collectives(met)
        self._runner = Runner(met.counts)
        self._others: Any = None
        self._mail = Mail(met.rank, met.here, met.inboxes, self._timeout)

    # --- what it is

    def getBackendName(self) -> str:
        return "forklift"

    def getGroupName(self) -> str:
        return self._name

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def _device_types(self) -> list[Any]:
        return [torch.device("cpu")]

    def __repr__(self) -> str:
        return f"<ForkliftProcessGroup {self._name!r}: rank {self.rank()} of {self.size()}>"

    def _beside(self, x: Any) -> Any:
        """The group of the same ranks for tensors of other devices, made with the first call that needs it.

        torch makes the backends of other devices for groups of its own class only.
        """
        if x.is_cpu:
            raise _unsuitable(x)
        if self._others is None:
            config = str(dist.distributed_c10d._world.pg_backend_config.get(self, ""))
            parts = [part for part in config.split(",") if not part.startswith("cpu:")]
            if x.device.type not in [part.partition(":")[0] for part in parts]:
                raise _unsuitable(x)
            self._others = dist.new_group(
                dist.get_process_group_ranks(self),
                timeout=timedelta(seconds=self._timeout),
                backend=",".join(parts),
                use_local_synchronization=True,
            )
        return self._others

    # --- how a call is done

    def _run(self, what: str, opts: Any, result: list[Any], action: Action) -> Any:
        wanted = 0.0 if opts is None else opts.timeout.total_seconds()  # not positive: the group's
        timeout = wanted if wanted > 0 else self._timeout
        return self._runner.run(what, action, timeout, result, getattr(opts, "asyncOp", True))

    def _checked(self, *lists: Sequence[Any]) -> None:
        for tensors in lists:
            for x in tensors:
                if x.device.type != "cpu" or x.layout is not torch.strided:
                    raise _unsuitable(x)

    # --- reductions

    def allreduce(self, tensors: list[Any], opts: Any = None) -> Any:
        """DDP calls this for each bucket of gradients, so it does without what the other calls do."""
        for x in tensors:
            if not x.is_cpu or x.layout is not torch.strided:
                return self._beside(x).allreduce(tensors, opts)
        op = "sum" if opts is None else _op_of(opts)
        reduce = self._ranks.all_reduce
        if len(tensors) == 1:
            return self._run("all_reduce", opts, tensors, lambda timeout: reduce(x, op, timeout))

        def action(timeout: float) -> None:
            for x in tensors:
                reduce(x, op, timeout)

        return self._run("all_reduce", opts, tensors, action)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: list[Any], opts: Any = None) -> Any:
        opts = opts or c10d.ReduceOptions()
        self._checked(tensors)
        op, root = _op_of(opts), opts.rootRank
        (x,) = tensors
        return self._run("reduce", opts, tensors, lambda t: self._ranks.reduce(x, root, op, t))

    def reduce_scatter(self, outs: list[Any], lists: list[list[Any]], opts: Any = None) -> Any:
        opts = opts or c10d.ReduceScatterOptions()
        (out,), (parts,) = outs, lists
        self._checked(outs, parts)
        equal_parts("reduce_scatter", parts, out, self.size())
        op = _op_of(opts)
        return self._run(
            "reduce_scatter",
            opts,
            outs,
            lambda t: self._ranks.reduce_scatter(collect(parts), out, op, t),
        )

    def reduce_scatter_single(self, out: Any, x: Any, opts: Any = None) -> Any:
        return self.reduce_scatter_single_coalesced([out], [x], opts)

    def reduce_scatter_single_coalesced(self, outs: list[Any], xs: list[Any], opts: Any = None) -> Any:
        opts = opts or c10d.ReduceScatterOptions()
        self._checked(outs, xs)
        op = _op_of(opts)

        def action(timeout: float) -> None:
            for x, out in zip(xs, outs, strict=True):
                self._ranks.reduce_scatter(flat(x), out, op, timeout)

        return self._run("reduce_scatter_tensor", opts, outs, action)

    # --- copies

    def broadcast(self, tensors: list[Any], opts: Any = None) -> Any:
        opts = opts or c10d.BroadcastOptions()
        self._checked(tensors)
        (x,), root = tensors, opts.rootRank
        return self._run("broadcast", opts, tensors, lambda t: self._ranks.broadcast(x, root, t))

    def allgather(self, lists: list[list[Any]], tensors: list[Any], opts: Any = None) -> Any:
        opts = opts or c10d.AllgatherOptions()
        for outs, x in zip(lists, tensors, strict=True):
            self._checked(outs, [x])
            equal_parts("all_gather", outs, x, self.size())

        def action(timeout: float) -> None:
            for outs, x in zip(lists, tensors, strict=True):
                with spread(outs) as out:
                    self._ranks.all_gather(x, out, timeout)

        return self._run("all_gather", opts, [out for outs in lists for out in outs], action)

    def allgather_coalesced(self, lists: list[list[Any]], tensors: list[Any], opts: Any = None) -> Any:
        # Here the outer list is of the ranks, the inner ones of the tensors.
        by_tensor = [[outs[index] for outs in lists] for index in range(len(tensors))]
        return self.allgather(by_tensor, tensors, opts)

    def all_gather_single(self, out: Any, x: Any, opts: Any = None) -> Any:
        return self.all_gather_single_coalesced([out], [x], opts)

    def all_gather_single_coalesced(self, outs: list[Any], xs: list[Any], opts: Any = None) -> Any:
        opts = opts or c10d.AllgatherOptions()
        self._checked(outs, xs)

        def action(timeout: float) -> None:
            for x, out in zip(xs, outs, strict=True):
                with spread([out]) as whole:
                    self._ranks.all_gather(x, whole, timeout)

        return self._run("all_gather_into_tensor", opts, outs, action)

    def gather(self, lists: list[list[Any]], tensors: list[Any], opts: Any = None) -> Any:
        opts = opts or c10d.GatherOptions()
        (x,), root = tensors, opts.rootRank
        outs = lists[0] if self.rank() == root else []
        self._checked(outs, tensors)
        if self.rank() == root:
            equal_parts("gather", outs, x, self.size())

        def action(timeout: float) -> None:
            with spread(outs) as out:
                self._ranks.gather(x, out, root, timeout)

        return self._run("gather", opts, outs, action)

    def scatter(self, outs: list[Any], lists: list[list[Any]], opts: Any = None) -> Any:
        opts = opts or c10d.ScatterOptions()
        (out,), root = outs, opts.rootRank
        parts = lists[0] if self.rank() == root else []
        self._checked(outs, parts)
        if self.rank() == root:
            equal_parts("scatter", parts, out, self.size())

        def action(timeout: float) -> None:
            x = collect(parts) if parts else None
            self._ranks.scatter(x, out, root, timeout)

        return self._run("scatter", opts, outs, action)

    def alltoall(self, outs: list[Any], parts: list[Any], opts: Any = None) -> Any:
        opts = opts or c10d.AllToAllOptions()
        self._checked(outs, parts)
        return self._run("all_to_all", opts, outs, lambda t: exchange(self._ranks, parts, outs, t))

    def all_to_all_single(
        self, out: Any, x: Any, out_sizes: list[int], in_sizes: list[int], opts: Any = None
    ) -> Any:
        opts = opts or c10d.AllToAllOptions()
        self._checked([out, x])
        if not out_sizes and not in_sizes:
            equal_parts("all_to_all_single", [out], x, 1)

            def action(timeout: float) -> None:
                with spread([out]) as whole:
                    self._ranks.all_to_all(flat(x), whole, timeout)

            return self._run("all_to_all_single", opts, [out], action)
        sizes_in = in_sizes or [x.shape[0] // self.size()] * self.size()
        sizes_out = out_sizes or [out.shape[0] // self.size()] * self.size()
        return self.alltoall([*out.split(sizes_out)], [*x.split(sizes_in)], opts)

    def barrier(self, opts: Any = None) -> Any:
        return self._run("barrier", opts or c10d.BarrierOptions(), [], self._ranks.barrier)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier whose DistBackendError names all ranks that were missing; so does any other call's."""
        opts = c10d.BarrierOptions()
        opts.timeout = timeout or timedelta(seconds=self._timeout)
        self.barrier(opts).wait()

    # --- from one rank to another

    def send(self, tensors: list[Any], destination: int, tag: int = 0) -> Any:
        self._checked(tensors)
        (x,) = tensors
        self._mail.send(x, destination, tag)
        return done(tensors)

    def recv(self, tensors: list[Any], source: int, tag: int = 0) -> Any:
        self._checked(tensors)
        (x,) = tensors
        return self._mail.post(x, source, tag)

    def recv_anysource(self, tensors: list[Any], tag: int = 0) -> Any:
        self._checked(tensors)
        (x,) = tensors
        return self._mail.post(x, None, tag)

    # --- several calls as one: each is done when it is issued

    def _start_coalescing(self, device: Any = None) -> None:
        pass

    def _end_coalescing(self, device: Any = None) -> Any:
        return self._runner.run("coalesced", lambda timeout: None, self._timeout, [], True)

    # --- the end

    def shutdown(self) -> None:
        """Leave the group. Calls that are under way are waited for, at most some seconds."""
        self._runner.close()
        self._ranks.close()
        self._mail.close()

    def abort(self) -> None:
        self._ranks.close()


def _tensors_in(arguments: Iterable[Any]) -> Iterator[Any]:
    for each in arguments:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from _tensors_in(each)


def _by_device(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Calls with tensors of another device go to the other backend of the group."""

    @functools.wraps(method)
    def call(self: ForkliftProcessGroup, *arguments: Any, **named: Any) -> Any:
        x = next(_tensors_in(arguments), None)
        if x is None or x.device.type == "cpu":
            return method(self, *arguments, **named)
        return getattr(self._beside(x), name)(*arguments, **named)

    return call


# The names that torch calls, with the earlier ones of some.
_CALLS = {
    **{
        name: name
        for name in (
            "reduce",
            "reduce_scatter",
            "reduce_scatter_single",
            "reduce_scatter_single_coalesced",
            "broadcast",
            "allgather",
            "allgather_coalesced",
            "all_gather_single",
            "all_gather_single_coalesced",
            "gather",
            "scatter",
            "alltoall",
            "all_to_all_single",
            "send",
            "recv",
            "recv_anysource",
        )
    },
    "_allgather_base": "all_gather_single",
    "allgather_into_tensor_coalesced": "all_gather_single_coalesced",
    "_reduce_scatter_base": "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
    "alltoall_base": "all_to_all_single",
}
_methods = {name: getattr(ForkliftProcessGroup, method) for name, method in _CALLS.items()}
for _name, _method in _methods.items():
    setattr(ForkliftProcessGroup, _name, _by_device(_name, _method))


def _unsuitable(x: Any) -> Exception:
    if x.device.type == "cpu":
        return NotImplementedError(
            f"the backend forklift takes dense tensors, and this one is {x.layout}: call to_dense() first"
        )
    kind = x.device.type
    return NotImplementedError(
        f"the backend forklift takes tensors of the CPU, and this one is on {x.device}: give the group a "
        f'backend for {kind}, too, as in init_process_group("cpu:forklift,{kind}:nccl"), or call cpu() first'
    )
