"""A sender waits for each of its tensors to be used (after the documentation of torch.multiprocessing)."""

import forklift.multiprocessing as mp
import torch


def sender(q, e):
    for _ in range(10):
        s_sample = [torch.zeros(1), torch.ones(1)]
        q.put(s_sample)
        e.wait()
        del s_sample
        e.clear()


if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    q = ctx.Queue()
    e = ctx.Event()
    p = ctx.Process(target=sender, args=(q, e))
    p.start()

    for i in range(10):
        print(f"=== ITER {i} ===")
        r_sample = q.get()
        assert [t.item() for t in r_sample] == [0.0, 1.0]
        del r_sample
        e.set()

    p.join()
