"""The pool on a Ray cluster: what the local pool's tests do not ask of it."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pool_targets
import pytest
import ray_targets as targets
import support
from forklift.multiprocessing.pool import MaybeEncodingError


@pytest.fixture(scope="module")
def pool(cluster: Any) -> Any:
    """A pool of all CPUs, which the tests of this module share."""
    with mp.get_context("ray").Pool() as made:
        support.until(lambda: [each.state for each in made.nodes()] == ["ready"] * 3, "three agents")
        yield made
        made.close()
        made.join()


def test_it_uses_all_nodes(pool: Any) -> None:
    assert mp.get_context("ray").cpu_count() == 3
    agents = support.until(
        lambda: len(found := set(pool.map(targets.agent_of, [0.02] * 12, 1))) == 3 and found, "all nodes work"
    )
    nodes = pool.nodes()
    assert len({each.node_id for each in nodes}) == 3
    assert [each.workers for each in nodes] == [1, 1, 1]
    assert not agents & {each.pid for each in nodes}  # workers are children of the node's fork server


def test_worker_ids_of_all_nodes(pool: Any) -> None:
    support.until(lambda: set(pool.map(pool_targets.who, range(12), 1)) == {0, 1, 2}, "three numbers")


def test_nodes_tell_what_runs_and_waits(pool: Any) -> None:
    result = pool.map_async(targets.nap, [0.4] * 30, 1)
    support.until(lambda: sum(each.running for each in pool.nodes()) == 3, "three tasks run")
    nodes = pool.nodes()
    # Few wait on the nodes, where no other node's free worker can have them; most wait in the driver.
    assert all(each.waiting <= 2 for each in nodes)
    assert pool.waiting() >= 18
    pool_targets_done = result.get(support.DEADLINE)
    assert pool_targets_done == [0.4] * 30
    assert pool.waiting() == 0


def test_functions_of_the_main_module_and_their_classes(cluster: Any, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import dataclasses, sys
            import forklift.multiprocessing as mp
            import ray

            @dataclasses.dataclass
            class Point:
                x: int

            class Refused(Exception):
                pass

            def move(point):
                if point.x < 0:
                    raise Refused(point.x)
                return Point(point.x + 1)

            if __name__ == "__main__":
                ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
                with mp.get_context("ray").Pool(2) as pool:
                    assert pool.map(move, [Point(1), Point(2)], 1) == [Point(2), Point(3)]
                    assert list(pool.imap(lambda x: x * 2, range(3))) == [0, 2, 4]
                    try:
                        pool.apply(move, (Point(-1),))
                    except Refused as error:
                        print(error, type(error.__cause__).__name__)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(program), cluster.address], capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "-1 RemoteTraceback\n"


def test_errors(pool: Any) -> None:
    with pytest.raises(ValueError, match="no 3") as caught:
        pool.map(pool_targets.fail, [3], 1)
    assert "the line that fails" in str(caught.value.__cause__)
    assert "cluster/tasks.py" not in str(caught.value.__cause__)
    with pytest.raises(forklift.ResultDecodingError, match="will not be unpickled here"):
        pool.apply(pool_targets.make_unreadable)
    with pytest.raises(OSError, match="will not be unpickled here"):
        pool.apply(targets.same, (pool_targets.Unreadable(),))
    with pytest.raises(MaybeEncodingError, match="will not be pickled"):
        pool.apply(pool_targets.raise_unpicklable)
    refused = pool.map_async(targets.same, [1, pool_targets.Unpicklable(), 3], 1)
    with pytest.raises(RuntimeError, match="will not be pickled"):
        refused.get(support.DEADLINE)
    assert pool.apply(pool_targets.make_lambda)() == 42


def test_a_function_that_a_node_does_not_have(pool: Any) -> None:
    def late(x: int) -> int:
        return x

    late.__module__, late.__qualname__ = pool_targets.__name__, "late"
    pool_targets.late = late  # type: ignore[attr-defined]
    try:
        with pytest.raises(AttributeError, match=r"'late'.*does not have this function.*working_dir"):
            pool.map(late, [1])
    finally:
        del pool_targets.late  # type: ignore[attr-defined]


def test_functions_with_a_state(pool: Any) -> None:
    assert pool.map(pool_targets.Counter(), range(3), 1) == [1, 1, 1]
    assert pool.map(pool_targets.Counter(), range(3), 3) == [1, 2, 3]
    assert pool.map(functools.partial(pool_targets.add, y=5), range(3), 1) == [5, 6, 7]


def test_arrays_are_private_and_writable(pool: Any) -> None:
    for size in (10, 100_000):
        array = np.zeros(size)
        got = pool.apply(targets.change, (array,))
        assert got[0] == 7
        assert array[0] == 0
        got[1] = 5  # writable here, too
    assert forklift._core.block_under(got) is None or got.flags.writeable


def test_a_changed_array_was_sent_before(pool: Any) -> None:
    array = np.ones(100_000)
    results = []
    for i in range(20):
        array[:] = i
        results.append(pool.apply_async(targets.total, ((array, 1),)))
    assert [result.get(support.DEADLINE)[0] for result in results] == [i * 100_000.0 for i in range(20)]


def test_an_array_of_many_tasks_is_one_mapping_on_a_node(cluster: Any) -> None:
    node = {"CPU": 2.0}
    added = cluster.add_node(num_cpus=2, resources={"twins": 2}, object_store_memory=200 << 20)
    try:
        array = np.arange(1 << 17, dtype=np.float64)
        with mp.get_context("ray").Pool(2, ray_remote_args={"resources": {"twins": 1}}) as pool:
            assert pool.map(targets.total, [(array, i) for i in range(6)], 1) == [
                (array.sum() * i, False) for i in range(6)
            ]
            blocks = pool.map(targets.use_domain, range(4), 1)
            assert min(blocks) >= 3  # agent and two workers are one domain
            (only,) = pool.nodes()
            assert only.workers == int(node["CPU"])
            # The second call finds the frozen table on the node.
            table = forklift.freeze({"a": np.arange(50_000), "b": "text"})
            for _ in range(2):
                got = pool.map(targets.look_up, [(table, "b")] * 4, 1)
                assert got == [("FrozenDict", "text")] * 4
    finally:
        cluster.remove_node(added)


def test_what_holds_on_one_machine_only_says_so(pool: Any) -> None:
    context = mp.get_context("ray")
    for name, arguments in (
        ("Value", ("i", 0)),
        ("Array", ("i", 3)),
        ("RawValue", ("i",)),
        ("RawArray", ("i", 3)),
    ):
        with pytest.raises(forklift.NotAcrossNodesError, match=r"Manager\(\)"):
            getattr(context, name)(*arguments)
    with pytest.raises(forklift.NotAcrossNodesError, match="two queues"):
        context.Pipe()
    with pytest.raises(forklift.NotAcrossNodesError, match=r"num_cpus"):
        context.Pool(1, cpus=[min(os.sched_getaffinity(0))])
    with pytest.raises(NotImplementedError, match=r"forklift\.freeze"):
        pool.apply(targets.same, (forklift.share(np.zeros(3)),))
    with pytest.raises(ValueError, match=r"no start method: use get_context\('ray'\)"):
        mp.set_start_method("ray")


@pytest.mark.parametrize(
    ("wants", "says"),
    [
        ({"num_gpus": 1}, "1 GPU.*at most 1 CPU, 0 GPU"),
        ({"num_cpus": 64}, "64 CPU"),
        ({"label_selector": {"zone": "moon"}}, "labels.*moon"),
    ],
)
def test_more_than_any_node_has(cluster: Any, wants: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        mp.get_context("ray").Pool(1, ray_remote_args=wants)


def test_resources_are_reserved_for_each_worker(cluster: Any) -> None:
    import ray

    with mp.get_context("ray").Pool(3, ray_remote_args={"num_cpus": 1}) as pool:
        assert pool.map(targets.same, range(10), 1) == list(range(10))
        support.until(lambda: ray.available_resources().get("CPU", 0) == 0, "three CPUs are reserved")
    support.until(lambda: ray.available_resources().get("CPU", 0) == 3, "they are free again")


def test_a_pool_at_rest_uses_little(pool: Any) -> None:
    pids = [pid for each in pool.nodes() for pid in each.pids]
    before = [Path(f"/proc/{pid}/schedstat").read_text().split()[0] for pid in pids]
    begin = time.process_time()
    time.sleep(1)
    after = [Path(f"/proc/{pid}/schedstat").read_text().split()[0] for pid in pids]
    assert sum(int(b) - int(a) for a, b in zip(before, after, strict=True)) < 50e6
    assert time.process_time() - begin < 0.3  # of this whole process, Ray's threads included


def test_the_example_of_the_document(cluster: Any, tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "scale.md").read_text()
    program, shown = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)[:2]
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "RAY_ADDRESS": cluster.address},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown


def test_without_ray_it_names_the_line_for_pip() -> None:
    code = """
import sys
sys.modules["ray"] = None
import forklift.multiprocessing as mp
try:
    mp.get_context("ray")
except ImportError as error:
    print(error)
"""
    assert 'python -m pip install "ray>=2.40"' in support.run_python(code)


@pytest.mark.weekly
def test_the_photographs_job_has_the_same_losses_as_on_this_machine(cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the photographs are scikit-learn's")
    pytest.importorskip("torch", reason="the network is torch's")
    example = Path(__file__).parents[3] / "examples" / "photo_cluster.py"
    few = ["--batches", "6", "--held-out", "1", "--size", "16", "--json"]
    found = []
    for context in ("forkserver", "ray"):
        out = tmp_path / context
        subprocess.run(
            [sys.executable, example, "--context", context, *few, out],
            env={**os.environ, "RAY_ADDRESS": cluster.address},
            check=True,
            capture_output=True,
            timeout=120,
        )
        found.append(json.loads(out.read_text()))
    here, there = found
    assert (here["library"], there["library"]) == ("forkserver", "ray")
    assert len(there["losses"]) == 6
    assert (there["losses"], there["accuracy"]) == (here["losses"], here["accuracy"])
