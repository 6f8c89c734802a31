"""Objects in a server process (after study notes on multiprocessing in PyTorch)."""

from forklift.multiprocessing import Manager, Process


def f(d, li):
    d[1] = "1"
    d["2"] = 2
    d[0.25] = None
    li.reverse()


if __name__ == "__main__":
    with Manager() as manager:
        d = manager.dict()
        li = manager.list(range(10))

        p = Process(target=f, args=(d, li))
        p.start()
        p.join()

        print(d)
        print(li)
