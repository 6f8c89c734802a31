"""The step of collectives between nodes, by Ray's own collective library (ray.util.collective) with Gloo.

It runs in a node's RankHost, one call at a time. Gloo's part is torch.distributed, whose default group this
process then has; the ranks, in processes of their own, do not meet it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Any

import ray
from ray.util import collective
from ray.util.collective.types import ReduceOp

from forklift.cluster.wire import Layout

__all__ = ["call"]

_OPS = {"sum": ReduceOp.SUM, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX}
_SIOCGIFADDR = 0x8915


def call(layout: Layout, name: str, *arguments: Any) -> None:
    """Make a call with the other nodes; arrays have no gaps. The first one waits until all nodes have come.

    ("all_reduce", array, reduction), ("broadcast", array, node), ("all_gather", array, room): `room` has a
    row for each node.
    """
    group = layout.group
    if not collective.is_group_initialized(group):
        if not collective.gloo_available():
            raise RuntimeError(
                "collectives between nodes need torch on each node: python -m pip install torch"
            )
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface_of(ray.util.get_node_ip_address()))
        collective.init_collective_group(len(layout.counts), layout.node, "gloo", group)
    if name == "all_reduce":
        array, op = arguments
        collective.allreduce(array, group, _OPS[op])
    elif name == "broadcast":
        array, node = arguments
        collective.broadcast(array, node, group)
    else:
        array, room = arguments
        collective.allgather(list(room), array, group)


def _interface_of(address: str) -> str:
    """The network interface that has this address. Gloo would take the one that the host's name has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # it has no address
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return "lo"
