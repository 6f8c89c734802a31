"""What is no plain array travels as well: by pickle protocol 5, its buffers through shared memory."""

import datetime

import forklift.multiprocessing as mp
import numpy as np

try:
    import torch
except ImportError:
    torch = None

PERSON = np.dtype([("name", "U16"), ("born", "datetime64[D]"), ("place", "f4", 2)])


def echo(inbox, outbox):
    while (item := inbox.get()) is not None:
        outbox.put(item)


def things():
    yield "structured", np.array([("Ada", "1815-12-10", (51.5, -0.1))] * 10_000, dtype=PERSON)
    yield "big-endian", np.arange(100_000, dtype=">i4")
    yield "dates", np.arange("1970-01", "2020-01", dtype="datetime64[D]")
    yield "objects", np.array([1, "two", None, datetime.date(2000, 1, 1)], dtype=object)
    yield "masked", np.ma.masked_greater(np.arange(100_000), 99_990)
    if torch is not None:
        yield "torch", torch.arange(1_000_000, dtype=torch.float32).reshape(1000, 1000)
    try:
        import pandas
    except ImportError:
        return
    yield "pandas", pandas.DataFrame({"x": np.arange(100_000.0), "y": ["a", "b"] * 50_000})


def same(left, right):
    if torch is not None and isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, np.ma.MaskedArray):
        return np.array_equal(left.mask, right.mask) and np.ma.allequal(left, right)
    return left.equals(right) if hasattr(left, "equals") else np.array_equal(left, right)


if __name__ == "__main__":
    inbox, outbox = mp.Queue(), mp.Queue()
    worker = mp.Process(target=echo, args=(inbox, outbox))
    worker.start()
    for kind, thing in things():
        inbox.put(thing)
        back = outbox.get()
        assert type(back) is type(thing)
        assert same(thing, back)
        print(f"{kind:>10}: {type(back).__module__}.{type(back).__name__}, the same on its return")
    inbox.put(None)
    worker.join()
