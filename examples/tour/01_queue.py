"""Arrays through a queue to another process and back: equal values, nothing through a pipe."""

import forklift
import forklift.multiprocessing as mp
import numpy as np


def double(inbox, outbox):
    for name, array in iter(inbox.get, None):
        array *= 2  # what arrives is the receiver's own, and writable
        outbox.put((name, array))


if __name__ == "__main__":
    arrays = {
        "a picture": np.random.default_rng(0).integers(0, 127, (1080, 1920, 3), dtype=np.uint8),
        "every other column": np.arange(2_000_000, dtype=np.float32).reshape(1000, 2000)[:, ::2],
        "column by column": np.asfortranarray(np.arange(600_000.0).reshape(600, 1000)),
        "one number": np.array(21),
        "nothing": np.empty((0, 3)),
    }
    inbox, outbox = mp.Queue(), mp.Queue()
    worker = mp.Process(target=double, args=(inbox, outbox))
    worker.start()
    for item in arrays.items():
        inbox.put(item)
    for _ in arrays:
        name, result = outbox.get()
        assert np.array_equal(result, arrays[name] * 2)
        assert result.dtype == arrays[name].dtype
        print(f"{name:>20}: {result.dtype} {result.shape}, {result.nbytes:,} bytes, doubled by the worker")
    inbox.put(None)
    worker.join()
    print("bytes of payload that went through a pipe:", forklift.stats()["pipe_bytes"])
