"""Queues between processes: round trips, flow, how long a put blocks its caller, making a queue."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from peers.exchange import exchange_until_settled

from rows import others
from rows.spec import Library, Row, Scale

ROUND_TRIPS = 4_000
WARM_UP = 200
MESSAGES = 100_000


def _echo(there: Any, back: Any) -> None:
    while (item := there.get()) is not None:
        back.put(item)


def _round_trip_count(scale: Scale) -> int:
    return scale.count(ROUND_TRIPS, 500)


def _flow_count(scale: Scale) -> int:
    return scale.count(MESSAGES, 1_000)


def _round_trips(make: Callable[[], Any], context: Any, scale: Scale) -> list[float]:
    """The seconds that each round trip of a small int takes through two queues between two processes."""
    count = _round_trip_count(scale)
    there, back = make(), make()
    peer = context.Process(target=_echo, args=(there, back))
    peer.start()

    def round_trip() -> None:
        there.put(5)
        back.get()

    exchange_until_settled(round_trip)
    clock = time.perf_counter
    times = []
    for _ in range(count):
        begin = clock()
        there.put(5)
        back.get()
        times.append(clock() - begin)
    there.put(None)
    peer.join()
    return times


def queue_rtt(library: Library, scale: Scale) -> float:
    context = library.context()
    return statistics.mean(_round_trips(context.Queue, context, scale)) * 1e6


def simplequeue_rtt(library: Library, scale: Scale) -> float:
    context = library.context()
    return statistics.mean(_round_trips(context.SimpleQueue, context, scale)) * 1e6


def tail(library: Library, scale: Scale) -> float:
    context = library.context()
    return statistics.quantiles(_round_trips(context.Queue, context, scale), n=100)[98] * 1e6


def _produce(go: Any, queue: Any, warm_up: int, count: int) -> None:
    for i in range(warm_up):
        queue.put(i)
    go.recv_bytes()
    for i in range(count):
        queue.put(i)


def _consume(go: Any, queue: Any, warm_up: int, count: int, done: Any) -> None:
    for _ in range(warm_up):
        queue.get()
    go.recv_bytes()
    for _ in range(count):
        queue.get()
    done.send_bytes(b"x")


def queue_oneway(library: Library, scale: Scale) -> float:
    """Thousands of small ints a second, one producer, one consumer."""
    context = library.context()
    count = _flow_count(scale)
    queue = context.Queue()
    go, told = context.Pipe()
    producer = context.Process(target=_produce, args=(told, queue, WARM_UP, count))
    producer.start()
    for _ in range(WARM_UP):
        queue.get()
    begin = time.perf_counter()
    go.send_bytes(b"x")
    for _ in range(count):
        queue.get()
    seconds = time.perf_counter() - begin
    producer.join()
    return count / seconds / 1e3


def throughput_4p4c(library: Library, scale: Scale) -> float:
    """Thousands of small ints a second, four producers and four consumers on one queue."""
    context = library.context()
    each = scale.count(10_000)
    queue = context.Queue()
    heard, done = context.Pipe()
    gos, workers = [], []
    for work, extra in ((_produce, ()), (_consume, (done,))):
        for _ in range(4):
            go, told = context.Pipe()
            gos.append(go)
            workers.append(context.Process(target=work, args=(told, queue, WARM_UP, each, *extra)))
            workers[-1].start()
    time.sleep(0.1)  # all have warmed up
    begin = time.perf_counter()
    for go in gos:
        go.send_bytes(b"x")
    for _ in range(4):
        heard.recv_bytes()
    seconds = time.perf_counter() - begin
    for worker in workers:
        worker.join()
    return 4 * each / seconds / 1e3


def _acknowledge(queue: Any, ack: Any, count: int) -> None:
    for _ in range(count):
        item = queue.get()
        ack.send_bytes(b"x")
        del item


def _put_return(library: Library, count: int, item: Any) -> float:
    """Microseconds that `put` blocks its caller; the queue is empty and the consumer waits."""
    context = library.context()
    queue = context.Queue()
    heard, ack = context.Pipe()
    consumer = context.Process(target=_acknowledge, args=(queue, ack, count + 10))
    consumer.start()
    times = []
    for i in range(-10, count):
        begin = time.perf_counter()
        queue.put(item)
        seconds = time.perf_counter() - begin
        heard.recv_bytes()
        if i >= 0:
            times.append(seconds)
    consumer.join()
    return statistics.median(times) * 1e6


def put_return_64b(library: Library, scale: Scale) -> float:
    return _put_return(library, scale.count(2_000), bytes(64))


def put_return_1m(library: Library, scale: Scale) -> float:
    import numpy as np

    return _put_return(library, scale.count(200), np.ones(1 << 18, np.float32))


def put_return_shared_1m(library: Library, scale: Scale) -> float:
    """As put_return_1m, of an array that ours has in shared memory: what the put takes without the copy."""
    import forklift
    import numpy as np

    ours = library.module.__name__.startswith("forklift")
    array: Any = forklift.zeros((1 << 18,), dtype="float32") if ours else np.ones(1 << 18, np.float32)
    return _put_return(library, scale.count(200), array)


def copy_1m(scale: Scale) -> float:
    """Microseconds of a warm copy of 1 MB."""
    import numpy as np

    source: Any = np.ones(1 << 18, np.float32)
    target: Any = np.zeros(1 << 18, np.float32)
    times = []
    for _ in range(scale.count(200)):
        begin = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def create_queue(library: Library, scale: Scale) -> float:
    """Microseconds of one `Queue()`."""
    context = library.context()
    count = scale.count(100, 20)
    context.Queue()
    begin = time.perf_counter()
    queues = [context.Queue() for _ in range(count)]
    seconds = time.perf_counter() - begin
    for queue in queues:
        queue.close()
    return seconds / count * 1e6


ROWS = (
    Row(
        "queue-rtt",
        "us",
        10,
        measure=queue_rtt,
        others=others.messages("round trip", _round_trip_count),
        floor=others.floor("round trip", _round_trip_count),
        floor_name=others.FLOOR_NAME,
    ),
    Row("simplequeue-rtt", "us", 5, measure=simplequeue_rtt),
    Row(
        "queue-oneway",
        "k/s",
        6,
        more_is_better=True,
        measure=queue_oneway,
        others=others.messages("flow", _flow_count),
    ),
    Row("tail", "us", 5, measure=tail, note="p99 of queue-rtt"),
    Row("4p4c", "k/s", 4, more_is_better=True, measure=throughput_4p4c),
    Row(
        "put-return-64B",
        "us",
        measure=put_return_64b,
        note="theirs returns before it pickles, ours when the message is in the queue",
    ),
    Row(
        "put-return-1M",
        "us",
        measure=put_return_1m,
        floor=copy_1m,
        floor_name="memcpy",
        note="theirs returns before it pickles, ours has copied the array",
    ),
    Row(
        "put-return-shared-1M",
        "us",
        measure=put_return_shared_1m,
        note="put-return-1M of a tensor that lies in shared memory, beside theirs of an array",
    ),
    Row("create-queue", "us", 10, measure=create_queue),
)
