"""A producer outlives its consumer's tensors (after the documentation of torch.multiprocessing)."""

import forklift
import forklift.multiprocessing as mp


def producer(queue, event):
    # send tensors, do something
    for i in range(3):
        tensor = forklift.empty([4])
        tensor.fill(i)
        queue.put(tensor)
    event.wait()


if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    queue, event = ctx.Queue(), ctx.Event()
    p = ctx.Process(target=producer, args=(queue, event))
    p.start()
    # receive tensors and use them
    for _ in range(3):
        x = queue.get()
        print(x)
        # do somethings with x
        del x
    event.set()
    p.join()
    print("the producer ended with", p.exitcode)
