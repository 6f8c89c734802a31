"""New, running, blocked, terminated (after study notes on multiprocessing in PyTorch)."""

import forklift.multiprocessing as mp


def work(started, go):
    started.set()
    go.wait()
    raise SystemExit(3)


if __name__ == "__main__":
    mp.set_start_method("spawn")
    started, go = mp.Event(), mp.Event()
    p = mp.Process(target=work, args=(started, go))
    print("new:", p.is_alive(), p.exitcode, p.pid)
    p.start()
    started.wait()
    print("running, blocked:", p.is_alive(), p.exitcode, p.pid is not None)
    go.set()
    p.join()
    print("terminated:", p.is_alive(), p.exitcode)
    p.close()
