"""Mixed messages between processes that come and go, until what is held proves flat or not.

    python tests/chaos/soak.py [--messages 1000000] [--seed 1] [--json PATH]

Rounds of about 4,000 messages: ints, strings, dicts, arrays of 1 KB to 1 MB, tensors in shared memory (and
torch's), exceptions and pickled objects go through a Queue, a bounded JoinableQueue, a SimpleQueue, a Pipe
and a Pool, while other workers count in shared Values under locks, conditions and semaphores. Workers live
for one round; some are killed in the middle of it, at a time that a seed decides. The queues, this process
and one witness, which takes part in every round, live from the first round to the last.

After each round all that was in transit is taken, all workers are gone, and what is left is written down: of
this process and of the witness the private resident memory, descriptors and mappings; of the domain the
blocks, leases, channels, slots, and the bytes that the arena and the channels keep.

What counts as flat. The first fifth of the rounds is warm-up. Of the rest the first third is compared with
the last. These may have grown, from third to third, by no more than:

- blocks, leases, channels, slots, descriptors (medians): nothing
- mappings (the largest number): four; views for received arrays come one by one, eight at most
- private resident memory (median): 3 MB
- the arena's bytes in use, the channels' bytes (medians): 10 % and 1 MB
- free memory that the arena keeps warm (median, runs of 100 rounds and more): 25 % and 8 MB; it follows the
  peak of what was ever in transit

A leak of 64 bytes in every tenth message of a full run would be 6 MB.

`--leak memory|blocks|descriptors|queues` leaks on purpose, to show that this notices.
Exit status: 0 flat, 1 not, 2 something went wrong on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import queue as std_queue
import random
import signal
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from multiprocessing import connection as std_connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import forklift
import forklift.multiprocessing as mp
from forklift.multiprocessing import connection as mp_connection
from soak_messages import Message, check, make

STOP = "stop"
# The standard library's pipes carry no shared memory.
PIPES_SHARE = not issubclass(mp_connection.Connection, std_connection.Connection)
PATIENCE = 120.0  # a machine may be busy
ROUND = 4000

# What each worker does, and its share of a round.
SHARES = {
    "queue": 0.45,
    "simple": 0.1,
    "joinable": 0.1,
    "pipe": 0.1,
    "pool": 0.05,
    "witness": 0.1,
    "lock": 0.1,
}
EXACT = ("blocks", "leases", "queues", "processes", "descriptors", "witness descriptors")
FEW = ("mappings", "witness mappings")
RESIDENT = ("resident", "witness resident")
BYTES = ("arena bytes", "channel bytes")
LONG_RUN = 100  # rounds


# --- workers


def produce(queue: Any, seed: int, count: int, progress: Any, place: int) -> None:
    source = random.Random(seed)
    for _ in range(count):
        queue.put(make(source))
        progress[place] += 1


def consume(queue: Any) -> None:
    while (message := queue.get(timeout=PATIENCE)) != STOP:
        check(message)


def consume_tasks(queue: Any) -> None:
    while True:
        message = queue.get(timeout=PATIENCE)
        queue.task_done()
        if message == STOP:
            return
        check(message)


def consume_simple(queue: Any) -> None:
    while (message := queue.get()) != STOP:
        check(message)


def echo_pipe(end: Any) -> None:
    while (message := end.recv()) != STOP:
        check(message)
        end.send(message)


def count_up(shared: Any, count: int, progress: Any, place: int) -> None:
    """Counts under a Value's lock, an RLock and a Condition's, and passes a unit of a semaphore on."""
    warnings.simplefilter("ignore", forklift.AbandonedLockWarning)
    value, array, lock, condition, semaphore = shared
    for i in range(count):
        with value.get_lock():
            value.value += 1
        with lock, lock:
            array[i % len(array)] = i
        with condition:
            condition.notify()
            condition.wait(0.0)
        semaphore.release()
        semaphore.acquire()
        progress[place] += 1


def witness(there: Any, back: Any) -> None:
    """Lives as long as the soak and sends back what it gets."""
    while (message := there.get()) != STOP:
        check(message)
        back.put(message)


def task(message: Message) -> Message:
    check(message)
    return message


# --- a round


@dataclass
class Stage:
    """What lives from the first round to the last."""

    queue: Any
    joinable: Any
    simple: Any
    there: Any
    back: Any
    progress: Any
    witness: Any
    source: random.Random
    leaked: list[Any]


def build(seed: int) -> Stage:
    context = mp.get_context("fork")
    anywhere = mp.get_context("spawn")  # its queues go to children of every start method
    there, back = anywhere.Queue(), anywhere.Queue()
    lasting = child(context, witness, there, back)
    progress = context.RawArray("q", 16)
    source = random.Random(seed)
    queues = (anywhere.Queue(), anywhere.JoinableQueue(64), anywhere.SimpleQueue())
    return Stage(*queues, there, back, progress, lasting, source, [])


def child(context: Any, target: Any, *arguments: Any) -> Any:
    # A daemon, so that nobody is left when the soak fails.
    worker = context.Process(target=target, args=arguments, daemon=True)
    worker.start()
    return worker


def drain(queue: Any) -> None:
    try:
        while True:
            queue.get(timeout=0.0)
    except std_queue.Empty:
        pass


def run_queue(stage: Stage, context: Any, each: int) -> list[Any]:
    """Two producers, two consumers; in every other round one of the four is killed."""
    source = stage.source
    seeds = [source.getrandbits(32) for _ in range(2)]
    producers = [
        child(context, produce, stage.queue, seed, each, stage.progress, i) for i, seed in enumerate(seeds)
    ]
    return producers + [child(context, consume, stage.queue) for _ in range(2)]


def end_queue(stage: Stage, workers: list[Any], victim: int | None, after: float) -> None:
    if victim is not None:
        time.sleep(after)
        workers[victim].kill()
    for worker in workers[:2]:
        finish(worker, worker is workers[victim] if victim is not None else False)
    for _ in workers[2:]:
        stage.queue.put(STOP)
    for worker in workers[2:]:
        finish(worker, victim is not None and worker is workers[victim])
    drain(stage.queue)


def finish(worker: Any, killed: bool = False) -> None:
    worker.join(PATIENCE)
    if worker.exitcode != 0 and not (killed and worker.exitcode == -signal.SIGKILL):
        raise RuntimeError(f"{worker} ended with {worker.exitcode}")
    worker.close()


def talk_over_pipe(stage: Stage, context: Any, count: int, kill: bool) -> int:
    here, there = context.Pipe()
    worker = child(context, echo_pipe, there)
    there.close()
    done = 0
    try:
        for i in range(count):
            if kill and i == count // 2:
                worker.kill()
            here.send(make(stage.source, shared=PIPES_SHARE))
            check(here.recv())
            done += 1
        here.send(STOP)
    except (EOFError, OSError):
        if not kill:
            raise
    finish(worker, kill)
    here.close()
    return done


def talk_to_witness(stage: Stage, count: int) -> int:
    for _ in range(count):
        stage.there.put(make(stage.source))
        check(stage.back.get(timeout=PATIENCE))
    return count


def through_pool(stage: Stage, context: Any, count: int) -> int:
    with context.Pool(2) as pool:
        for message in pool.imap_unordered(task, (make(stage.source) for _ in range(count)), chunksize=4):
            check(message)
        pool.close()
        pool.join()
    return count


def one_round(stage: Stage, number: int, size: int) -> int:
    """How many messages were put."""
    method = {7: "spawn", 3: "forkserver"}.get(number % 20, "fork")
    context = mp.get_context(method)
    counts = {name: max(4, int(size * share)) for name, share in SHARES.items()}
    source = stage.source
    stage.progress[:] = [0] * len(stage.progress)
    done = 0

    queue_workers = run_queue(stage, context, counts["queue"] // 2)
    value = context.Value("q", 0)
    shared = (value, context.Array("q", 100), context.RLock(), context.Condition(), context.Semaphore(3))
    others = [child(context, consume_simple, stage.simple), child(context, consume_tasks, stage.joinable)]
    others += [child(context, count_up, shared, counts["lock"] // 2, stage.progress, 4 + i) for i in range(2)]
    holder_killed = number % 6 == 4
    if holder_killed:
        time.sleep(source.random() * 0.005)
        others[2].kill()
    for _ in range(counts["simple"]):
        stage.simple.put(make(source))
    stage.simple.put(STOP)
    for _ in range(counts["joinable"]):
        stage.joinable.put(make(source))
    stage.joinable.put(STOP)
    stage.joinable.join()
    done += counts["simple"] + counts["joinable"]
    done += talk_over_pipe(stage, context, counts["pipe"], kill=number % 5 == 2)
    done += talk_to_witness(stage, counts["witness"])
    if number % 4 == 3:
        done += through_pool(stage, context, counts["pool"] * 4)
    victim = source.randrange(4) if number % 2 else None
    end_queue(stage, queue_workers, victim, source.random() * 0.02)
    for worker in others:
        finish(worker, holder_killed and worker is others[2])
    if not 0 <= value.value - sum(stage.progress[4:6]) <= holder_killed:
        raise RuntimeError(f"counted to {value.value} in {sum(stage.progress[4:6])} steps")
    return done + sum(stage.progress)


# --- what is left


def held_by(pid: int) -> dict[str, int]:
    root = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines())
    return {
        "resident": int(status["RssAnon"].split()[0]) << 10,
        "descriptors": len(os.listdir(root / "fd")),
        "mappings": sum("memfd:forklift" in line for line in (root / "maps").read_text().splitlines()),
    }


def settled(stage: Stage) -> dict[str, int]:
    """After the last worker's end was noticed; dead processes are noticed a little later than joined."""
    forklift.reap()
    until = time.monotonic() + 5
    while True:
        stats = forklift.stats()
        if stats["processes"] <= 3 or time.monotonic() > until:
            break
        forklift.reap()
        time.sleep(0.002)
    names = ("blocks", "leases", "queues", "processes")
    mine, theirs = held_by(os.getpid()), held_by(stage.witness.pid)
    return {
        **{name: stats[name] for name in names},
        "arena bytes": stats["committed_bytes"] - stats["cached_bytes"],
        "warm bytes": stats["cached_bytes"],
        "channel bytes": stats["chunk_bytes"],
        **mine,
        **{f"witness {name}": value for name, value in theirs.items()},
    }


def growth(samples: list[dict[str, int]]) -> list[str]:
    """What is not flat, in words; empty if all is."""
    rest = samples[len(samples) // 5 :]
    third = len(rest) // 3
    first, last = rest[:third], rest[-third:]
    found = []

    def compare(names: tuple[str, ...], measure: Any, allowed: Any) -> None:
        for name in names:
            before, after = measure(s[name] for s in first), measure(s[name] for s in last)
            if after > before + allowed(before):
                found.append(f"{name}: {before:.0f} in the first third, {after:.0f} in the last")

    compare(EXACT, statistics.median, lambda _: 0)
    compare(FEW, max, lambda _: 4)
    compare(RESIDENT, statistics.median, lambda _: 3 << 20)
    compare(BYTES, statistics.median, lambda before: before // 10 + (1 << 20))
    if len(samples) >= LONG_RUN:
        compare(("warm bytes",), statistics.median, lambda before: before // 4 + (8 << 20))
    return found


LEAKS: dict[str, Any] = {
    "memory": lambda: bytearray(os.urandom(1 << 20)),
    "blocks": lambda: forklift.zeros([10_000]),
    "descriptors": lambda: open(os.devnull),  # noqa: SIM115
    "queues": lambda: mp.Queue(),
}


def report(done: int, seconds: float, sample: dict[str, int]) -> None:
    parts = [
        f"{done:>9,} messages {seconds:6.0f} s",
        f"resident {sample['resident'] / 1e6:6.1f} {sample['witness resident'] / 1e6:6.1f} MB",
        f"descriptors {sample['descriptors']} {sample['witness descriptors']}",
        f"mappings {sample['mappings']} {sample['witness mappings']}",
        f"blocks {sample['blocks']} leases {sample['leases']}",
        f"channels {sample['queues']} slots {sample['processes']}",
        f"arena {sample['arena bytes'] / 1e6:.1f} + {sample['warm bytes'] / 1e6:.0f} MB warm",
        f"chunks {sample['channel bytes'] / 1e3:.0f} KB",
    ]
    print("  ".join(parts), flush=True)


def soak(messages: int, seed: int, size: int, leak: str | None = None) -> dict[str, Any]:
    stage = build(seed)
    samples: list[dict[str, int]] = []
    done, number, begin, told = 0, 0, time.monotonic(), 0.0
    print("resident, descriptors and mappings: of this process, of the witness", flush=True)
    while done < messages:
        done += one_round(stage, number, size)
        number += 1
        if leak:
            stage.leaked.append(LEAKS[leak]())
        samples.append(settled(stage))
        seconds = time.monotonic() - begin
        if seconds - told >= 10 or done >= messages:
            told = seconds
            report(done, seconds, samples[-1])
    stage.there.put(STOP)
    finish(stage.witness)
    wrong = growth(samples)
    audit = forklift.audit()
    if audit:
        wrong.append(f"audit: {audit}")
    return {
        "messages": done,
        "rounds": number,
        "seconds": time.monotonic() - begin,
        "grew": wrong,
        "samples": samples,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round", type=int, default=ROUND, help="messages in a round")
    parser.add_argument("--leak", choices=sorted(LEAKS), help="leak one of these in each round")
    parser.add_argument("--json", type=Path, help="write all samples there")
    parser.add_argument("--torch", action="store_true", help="send torch's tensors, too")
    arguments = parser.parse_args()
    if arguments.torch:
        import torch

        torch.set_num_threads(1)
    try:
        result = soak(arguments.messages, arguments.seed, arguments.round, arguments.leak)
    except Exception:
        import traceback

        traceback.print_exc()
        return 2
    if arguments.json:
        arguments.json.write_text(json.dumps(result))
    print(
        f"{result['messages']:,} messages in {result['rounds']} rounds, {result['seconds']:.0f} s", end=": "
    )
    print("not flat: " + "; ".join(result["grew"]) if result["grew"] else "flat")
    return 1 if result["grew"] else 0


if __name__ == "__main__":
    sys.exit(main())
