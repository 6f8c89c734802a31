"""Does known amounts of everything, and ends. Arguments: how many messages go through the queue "numbers"."""

import sys

import forklift
import forklift.multiprocessing as mp
from forklift import trace


def triple(value):
    return 3 * value


def consume(numbers, door):
    taken = 0
    while numbers.get() is not None:
        with door:
            taken += 1
    return taken


if __name__ == "__main__":
    count = int(sys.argv[1])
    numbers, door, news = mp.Queue(), mp.Lock(), forklift.Broadcast(capacity=64)
    for thing, name in ((numbers, "numbers"), (door, "door"), (news, "news")):
        forklift.set_label(thing, name)
    reader = mp.Process(target=consume, args=(numbers, door), name="reader")
    reader.start()
    listener = news.subscribe()
    with trace.range("feeding"):
        for number in range(count):
            numbers.put(number)
    numbers.put(None)
    for number in range(20):
        news.put(number)
        assert listener.get() == number
        trace.counter("progress", number)
    with mp.Pool(2) as pool:
        assert pool.map(triple, range(60), chunksize=2) == [3 * each for each in range(60)]
        # A worker that is terminated may have put its last answer, and not have recorded it.
        pool.close()
        pool.join()
    reader.join()
    print("ended", reader.exitcode, trace.is_on())
