"""The same worker under each start method of the standard library."""

import forklift.multiprocessing as mp
import numpy as np


def total(queue, results):
    array = queue.get()
    results.put((mp.current_process().name, float(array.sum())))


if __name__ == "__main__":
    array = np.ones(1_000_000)
    for method in mp.get_all_start_methods():
        context = mp.get_context(method)
        queue, results = context.Queue(), context.SimpleQueue()
        process = context.Process(target=total, args=(queue, results), name=f"by {method}")
        process.start()
        queue.put(array)
        name, found = results.get()
        process.join()
        assert found == array.sum()
        assert process.exitcode == 0
        print(f"a process started {name}: sum {found:.0f}")
