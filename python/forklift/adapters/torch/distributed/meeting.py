"""How the ranks of a process group find each other: through torch's store, then in shared memory.

Each rank tells the store where it runs and which of Forklift's domains it belongs to. Ranks of one machine
that are in one domain, as children of one program are, use it. Otherwise the first one serves its domain
under a name, and the others attach to it. In the domain the group's memory and the ranks' inboxes are
published until all have them.

All ranks read the same answers, so all come to the same decision, and to the same error.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch.distributed import DistBackendError

from forklift import _core
from forklift.adapters.torch.distributed.mpi import own_rank
from forklift.adapters.torch.distributed.running import Counts
from forklift.errors import ForkliftError
from forklift.multiprocessing.context import _default_context
from forklift.multiprocessing.queues import Queue
from forklift.objects import naming

__all__ = ["Meeting", "Peer", "meet", "start_of"]

# For tests: so many ranks, one after the other, count as a machine.
_RANKS_VARIABLE = "FORKLIFT_TORCH_RANKS_PER_MACHINE"
# Counts of different ranks lie in different cache lines: 8 words.
_STRIDE = 8
_ATTACH_S = 30.0


@dataclasses.dataclass(frozen=True)
class Peer:
    """What a rank has said of itself."""

    rank: int
    machine: str
    pid: int
    start: int  # of its process, as /proc has it: with the pid it is a process's name
    domain: int  # 0: none yet
    mpi: int  # its rank there; -1: none


@dataclasses.dataclass
class Meeting:
    """What a rank has when all have met. ``inboxes`` and ``here`` are of the ranks on this machine."""

    rank: int
    core: _core.GroupRank
    counts: Counts
    here: list[Peer]
    inboxes: list[Queue[Any]]
    machines: list[list[int]]
    lanes: list[list[int]]  # in MPI: the first rank of each machine, the second ones, as far as all have one


def meet(store: Any, rank: int, size: int, timeout: timedelta) -> Meeting:
    """Meet the other ranks of a group. DistBackendError names those that have not come in time."""
    peers = _introduce(store, rank, size, timeout)
    machines: dict[str, list[int]] = {}
    for peer in peers:
        machines.setdefault(peer.machine, []).append(peer.rank)
    lanes = [[peers[rank].mpi for rank in lane] for lane in zip(*machines.values(), strict=False)]
    if len(machines) > 1 and min(peer.mpi for peer in peers) < 0:
        raise DistBackendError(_no_mpi(machines))
    ranks = machines[peers[rank].machine]
    here = [peers[each] for each in ranks]
    place = _Place(store, list(machines).index(peers[rank].machine), rank, here, timeout)
    place.share_a_domain()
    return _assemble(place, list(machines.values()), lanes)


def _introduce(store: Any, rank: int, size: int, timeout: timedelta) -> list[Peer]:
    domain = _core.domain_id() if _core.has_domain() else 0
    own = Peer(rank, _machine(rank), os.getpid(), start_of(os.getpid()), domain, own_rank())
    store.set(f"rank/{rank}", json.dumps(dataclasses.asdict(own)))
    keys = [f"rank/{each}" for each in range(size)]
    _wait(store, keys, timeout, "had told the store where they run")
    return [Peer(**json.loads(store.get(key))) for key in keys]


def _wait(store: Any, keys: Sequence[str], timeout: timedelta, what: str) -> None:
    try:
        store.wait(list(keys), timeout)
    except Exception as error:  # of different classes for different stores
        missing = [key for key in keys if not store.check([key])]
        if not missing:
            return
        ranks = ", ".join(key.rpartition("/")[2] for key in missing)
        raise DistBackendError(
            f"not all ranks {what} after {timeout.total_seconds():g} s. Missing: {ranks}"
        ) from error


_own_machine = ""


def _machine(rank: int) -> str:
    """What processes have in common that can share memory: kernel, namespaces, user."""
    global _own_machine
    if not _own_machine:  # the first group's, and of all later ones
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        spaces = [str(os.stat(f"/proc/self/ns/{name}").st_ino) for name in ("pid", "net")]
        part = rank // int(os.environ[_RANKS_VARIABLE]) if _RANKS_VARIABLE in os.environ else 0
        _own_machine = "/".join([boot, *spaces, str(os.geteuid()), str(part)])
    return _own_machine


def start_of(pid: int) -> int:
    """When a process was started, in the kernel's ticks. 0: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


class _Place:
    """A rank among those on its machine, before they share memory."""

    def __init__(self, store: Any, machine: int, rank: int, here: list[Peer], timeout: timedelta) -> None:
        self.store = store
        self.prefix = f"machine/{machine}"
        self.here = here
        self.local = [peer.rank for peer in here].index(rank)
        self.rank = rank
        self.timeout = timeout
        self.served: naming.Domain | None = None

    def share_a_domain(self) -> None:
        """Attach to the domain of one of the ranks, unless all are in one."""
        domains = {peer.domain for peer in self.here}
        if domains == {0} and len(self.here) == 1:
            _core.ensure_domain()
        if len(domains) == 1 and domains != {0}:
            return
        owners = [peer for peer in self.here if peer.domain != 0]
        if len(domains - {0}) > 1:
            raise DistBackendError(_several_domains(owners))
        server = owners[0] if owners else self.here[0]
        if self.rank == server.rank:
            self._serve()
        elif self.here[self.local].domain == 0:
            self._attach()

    def _serve(self) -> None:
        if len(self.here) == 1:
            return
        name = "torch-" + secrets.token_hex(8)
        try:
            self.served = naming.serve(name)
        except Exception as error:
            self.store.set(f"{self.prefix}/domain", f"!{type(error).__name__}: {error}")
            raise
        self.store.set(f"{self.prefix}/domain", name)

    def _attach(self) -> None:
        name = self.told("domain", "the rank that serves the domain")
        try:
            naming.attach(name, timeout=_ATTACH_S, stand_by=False)
        except (ForkliftError, OSError, ValueError) as error:
            raise DistBackendError(
                f"rank {self.rank} cannot attach to the shared memory of the other ranks: {error}"
            ) from error

    def tell(self, key: str, value: str) -> None:
        self.store.set(f"{self.prefix}/{key}", value)

    def told(self, key: str, whose: str) -> str:
        """What the first rank has said. DistBackendError: that it has failed, or nothing in time."""
        full = f"{self.prefix}/{key}"
        try:
            self.store.wait([full], self.timeout)
        except Exception as error:
            raise DistBackendError(f"{whose} said nothing for {self.timeout.total_seconds():g} s") from error
        text: str = self.store.get(full).decode()
        if text.startswith("!"):
            raise DistBackendError(f"{whose} has failed: {text[1:]}")
        return text


def _no_mpi(machines: dict[str, list[int]]) -> str:
    ranks = "; ".join(", ".join(map(str, each)) for each in machines.values())
    return (
        f"the ranks are on {len(machines)} machines, or in containers or of users that share no memory: "
        f"{ranks}. Between machines this backend goes by MPI: start the program with mpirun where mpi4py is "
        "installed, or use the backend gloo"
    )


def _several_domains(owners: list[Peer]) -> str:
    ranks = ", ".join(f"{peer.rank} (pid {peer.pid})" for peer in owners)
    return (
        f"ranks {ranks} have shared memory of Forklift's already, and not the same: a process can attach to "
        "another one's only before its first queue, lock, shared tensor or child process. Call "
        'init_process_group("forklift") before these, or start the ranks as children of one program, with '
        "forklift.multiprocessing.start_processes"
    )


def _assemble(place: _Place, machines: list[list[int]], lanes: list[list[int]]) -> Meeting:
    """Make or open what the ranks of this machine share."""
    domain = naming.own_domain()
    size = len(place.here)
    inbox: Queue[Any] = _default_context.get_context("spawn").Queue()
    if place.local == 0:
        token = secrets.token_hex(8)
        memory = _core._create_group(size)
        words = _core.zeros((size * _STRIDE,), "int64")
        domain.publish(f"{token}.group", memory)
        domain.publish(f"{token}.counts", words)
        place.tell("token", token)
    else:
        token = place.told("token", f"rank {place.here[0].rank}")
        memory = domain.open(f"{token}.group")
        words = domain.open(f"{token}.counts")
    own = f"{token}.{place.local}"
    domain.publish(own, inbox)
    core = _core._join_group(memory, place.local)
    seconds = place.timeout.total_seconds()
    try:
        _gather_here(core, seconds, place)
        inboxes = [inbox if each == place.local else domain.open(f"{token}.{each}") for each in range(size)]
        _gather_here(core, seconds, place)
    finally:
        domain.unpublish(own)
        if place.local == 0:
            domain.unpublish(f"{token}.group")
            domain.unpublish(f"{token}.counts")
        if place.served is not None:
            place.served.close()
    counts = Counts(words, _STRIDE, place.local, size)
    return Meeting(place.rank, core, counts, place.here, inboxes, machines, lanes)


def _gather_here(core: _core.GroupRank, seconds: float, place: _Place) -> None:
    try:
        core.run("barrier", None, None, -1, None, seconds)
    except TimeoutError as error:
        pids = ", ".join(f"{peer.rank} (pid {peer.pid})" for peer in place.here)
        raise DistBackendError(f"of ranks {pids} not all came within {seconds:g} s: {error}") from error
