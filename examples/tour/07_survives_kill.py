"""SIGKILL producers in the middle of put, twenty times: the queue lives on and nothing stays behind."""

import random
import signal
import time

import forklift
import forklift.multiprocessing as mp
import numpy as np


def produce(queue, producer):
    for number in range(1_000_000):
        queue.put((producer, number, np.full(25_000, number, dtype=np.float32)))


def consume(queue, report):
    """Counts messages per producer; a message is whole, in order, and neither lost nor doubled."""
    expected: dict[int, int] = {}
    for producer, number, array in iter(queue.get, None):
        assert number == expected.get(producer, 0)
        assert (array == number).all()
        expected[producer] = number + 1
    report.put(expected)


if __name__ == "__main__":
    random.seed(0)
    queue, report = mp.Queue(maxsize=8), mp.Queue()
    consumer = mp.Process(target=consume, args=(queue, report))
    consumer.start()
    for kill in range(20):
        victim = mp.Process(target=produce, args=(queue, kill))
        victim.start()
        time.sleep(random.uniform(0.02, 0.08))
        victim.kill()
        victim.join()
        assert victim.exitcode == -signal.SIGKILL
    queue.put(None)
    received = report.get(timeout=30)
    consumer.join()
    assert consumer.exitcode == 0
    print(f"killed 20 producers; the consumer got {sum(received.values())} messages,", end=" ")
    print("each producer's without a gap")
    print("blocks still held:", forklift.stats()["blocks"])
