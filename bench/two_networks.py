#!/usr/bin/env python3
"""all_reduce over two nodes of two ranks that have TCP between them, beside MPI_Allreduce and Gloo.

    bench/two_networks.py                      64 MB, three rounds of each
    bench/two_networks.py --bytes 1048576 --rounds 5

The nodes are two network namespaces of this machine, which takes root and iproute2; each has a name and a
/dev/shm of its own, so that Open MPI and Gloo take them for machines. ``forklift::mpi`` and MPI are measured
in turn in one job, torch's backends in jobs of their own in turn. Prints milliseconds a call, of the slowest
rank or of rank 0.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peers.mpi import environment
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python" / "cluster"))
from networks import SWITCH, Network  # type: ignore[import-not-found]  # noqa: E402

GROUP_PROGRAM = ROOT / "build" / "release" / "bench" / "forklift_bench_mpi_group"
OPTIONS = "plm_rsh_agent {agent} btl_tcp_if_include 10.99.0.0/24 oob_tcp_if_include 10.99.0.0/24"
PASSED = (
    "FORKLIFT_MPI_NODE_RANKS",
    "FORKLIFT_TORCH_RANKS_PER_MACHINE",
    "PYTHONPATH",
    "OMPI_ALLOW_RUN_AS_ROOT",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
)
# Gloo would take the first address of the host's name.
TORCH_RANK = (
    "import os\n"
    "first = int(os.environ['OMPI_COMM_WORLD_RANK']) < 2\n"
    f"os.environ['GLOO_SOCKET_IFNAME'] = '{SWITCH}' if first else 'eth0'\n"
    "from rows.process_groups import reduce_in_job; reduce_in_job()"
)


def write_agent(network: Network, folder: Path) -> Path:
    """What mpirun takes for ssh: it runs a command in the second namespace."""
    agent = folder / "agent.sh"
    inside = " ".join(network.inside(1, ["unshare", "--mount", "--uts", "sh", "-c"]))
    agent.write_text(f'#!/bin/sh\nshift\nexec {inside} "hostname node2; mount -t tmpfs none /dev/shm; $*"\n')
    agent.chmod(0o755)
    return agent


def run(network: Network, agent: Path, command: list[str], **variables: str) -> list[float]:
    command_line = ["mpirun", "--oversubscribe", "--host", "10.99.0.1:2,10.99.0.2:2", "-n", "4"]
    words = OPTIONS.format(agent=agent).split()
    for name, value in zip(words[::2], words[1::2], strict=True):
        command_line += ["--mca", name, value]
    settings = environment(PYTHONPATH=str(ROOT / "bench"), **variables)
    for name in PASSED:
        command_line += ["-x", name] if name in settings else []
    done = subprocess.run(
        network.inside(0, [*command_line, *command]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=settings,
        timeout=300,
    )
    return [float(word) / 1e3 for word in done.stdout.split()]


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=int, default=1 << 26)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=8, help="calls in a round")
    options = parser.parse_args()
    took: dict[str, list[float]] = {}
    try:
        made = Network(2)
    except PermissionError as error:
        raise SystemExit(f"no network namespaces on this machine: {error}") from None
    with tempfile.TemporaryDirectory() as folder, made as network:
        agent = write_agent(network, Path(folder))
        size, count = str(options.bytes), str(options.count)
        for number in range(options.rounds):
            both = run(network, agent, [str(GROUP_PROGRAM), size, count, "1"], FORKLIFT_MPI_NODE_RANKS="2")
            took.setdefault("forklift::mpi::Group", []).append(both[0])
            took.setdefault("MPI_Allreduce", []).append(both[1])
            for backend in ("forklift", "gloo"):
                store = f"{folder}/store-{backend}-{number}"
                rank = [sys.executable, "-c", TORCH_RANK, backend, store, str(options.bytes // 4), count]
                (one,) = run(network, agent, rank, FORKLIFT_TORCH_RANKS_PER_MACHINE="2")
                took.setdefault(f"torch.distributed, {backend}", []).append(one)
    console = Console()
    gloo = statistics.median(took["torch.distributed, gloo"])
    for name, values in took.items():
        middle = statistics.median(values)
        each = ", ".join(f"{value:.1f}" for value in values)
        console.print(f"{name:28} {middle:7.1f} ms, {gloo / middle:.2f} times gloo ({each})", highlight=False)
    console.print(f"load average {os.getloadavg()[0]:.1f} at the end", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
