"""Ten processes, one queue (after study notes on multiprocessing in PyTorch)."""

import forklift.multiprocessing as mp


def foo(q, i):
    q.put(f"hello from process {i}")


if __name__ == "__main__":
    mp.set_start_method("spawn")
    # create data holder
    q = mp.Queue()
    procs = []
    for i in range(10):
        # create a new process
        p = mp.Process(target=foo, args=(q, i))
        procs.append(p)
        # run the process
        p.start()
    # get data
    print(q.qsize())  # Because of multiprocessing semantics, this number is not reliable.
    for _ in range(10):
        print(q.get())
    # wait for the processes to finish
    print("Waiting for the processes to finish...")
    for p in procs:
        p.join()
