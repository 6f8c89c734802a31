"""Two processes talk through a pipe (after study notes on multiprocessing in PyTorch)."""

import forklift.multiprocessing as mp


def foo(connection, i):
    connection.send(f"hello from process {i}")
    print(connection.recv())
    connection.close()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    procs = []
    for i in range(3):
        here, there = mp.Pipe()
        # create a new process
        p = mp.Process(target=foo, args=(there, i))
        procs.append(p)
        # run the process
        p.start()
        there.close()
        # get data
        print(here.recv())
        here.send(f"hello to process {i}")
        try:
            here.recv()
        except EOFError:
            print(f"process {i} has hung up")
    # wait for the processes to finish
    for p in procs:
        p.join()
