"""Ten processes, one queue, one lock (after study notes on multiprocessing in PyTorch)."""

import forklift.multiprocessing as mp


def foo(lock, q, i):
    lock.acquire()
    try:
        q.put(f"hello from process {i}")
    finally:
        lock.release()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    lock = mp.Lock()

    # create data holder
    q = mp.Queue()
    procs = []
    for i in range(10):
        # create a new process
        p = mp.Process(target=foo, args=(lock, q, i))
        procs.append(p)
        # run the process
        p.start()
    # get data
    for _ in range(10):
        print(q.get())
    # wait for the processes to finish
    print("Waiting for the processes to finish...")
    for p in procs:
        p.join()
