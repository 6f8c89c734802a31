"""A program on a Ray cluster that does what it is told, a line of JSON each; for test_ray_network.py.

    python network_driver.py ADDRESS_OF_THE_CLUSTER ADDRESS_OF_THIS_NODE

["nodes"]: name, state and process ids of the pool's nodes. ["begin", folder, tasks, seconds]: begin tasks of
so many seconds. ["end"]: wait for them; their outcomes, and how often each has ended.
"""

from __future__ import annotations

import collections
import json
import os
import sys
from pathlib import Path
from typing import Any

import forklift.multiprocessing as mp
import ray

sys.path.insert(0, str(Path(__file__).parent))
import ray_targets as targets


def main() -> None:
    address, own = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints what it has to tell
    ray.init(address=address, _node_ip_address=own, log_to_driver=False, logging_level="ERROR")
    results: list[Any] = []
    ended: list[int] = []
    with mp.get_context("ray").Pool(retries=1) as pool:
        for line in sys.stdin:
            what, *given = json.loads(line)
            said: Any = None
            if what == "nodes":
                said = {each.address: (each.state, [each.pid, *each.pids]) for each in pool.nodes()}
            elif what == "begin":
                folder, count, seconds = given
                turns = [((folder, number, seconds),) for number in range(count)]
                ended.clear()
                results = [
                    pool.apply_async(targets.sign, turn, callback=ended.append, error_callback=print)
                    for turn in turns
                ]
            else:
                outcomes = [result.get(60) for result in results]
                said = (outcomes, list(collections.Counter(ended).values()))
            print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
