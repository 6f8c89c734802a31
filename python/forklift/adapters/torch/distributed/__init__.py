"""A backend of torch.distributed over shared memory: the name "forklift", for tensors of the CPU.

    import torch.distributed as dist
    import forklift.adapters.torch.distributed          # registers the backend

    dist.init_process_group("forklift")                 # or "cpu:forklift,cuda:nccl"

The ranks may be children of one program of Forklift's, or may have been started by anything else (torchrun,
torch.multiprocessing): they find each other through torch's store. `meeting` does that, `ranks` has the
collectives of one machine, `mail` has send and recv, `machines` goes from machine to machine, `running` and
`work` do the calls in order, and `group` has the methods that torch calls.

A call's errors:

- PeerDiedError: a rank's process has ended; within a second or so.
- torch.distributed.DistBackendError: the time-out was over before all ranks had come; it names those that
  were missing. The others get BrokenGroupError.
- CollectiveMismatchError: the ranks called different things; the group goes on.

All but the last are RuntimeErrors. The group cannot be used after them.
"""

from __future__ import annotations

import torch.distributed

from forklift.adapters.torch.distributed.group import ForkliftProcessGroup, create

__all__ = ["NAME", "ForkliftProcessGroup", "register"]

NAME = "forklift"


def register() -> None:
    """Tell torch of the backend. Done by the import of this package."""
    torch.distributed.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])


register()
