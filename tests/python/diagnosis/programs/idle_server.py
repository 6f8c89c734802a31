"""No stuck program: a pool without work, and a parent that reads a silent socket. It serves a name."""

import socket
import sys

import forklift
import forklift.multiprocessing as mp


def identity(value):
    return value


if __name__ == "__main__":
    served = forklift.serve(sys.argv[1])
    queue = mp.Queue()
    served.publish("jobs", queue)
    reader = mp.Process(target=queue.get)
    reader.start()
    with mp.Pool(2) as pool:
        pool.map(identity, range(10))
        print("ready", flush=True)
        socket.socketpair()[0].recv(1)
