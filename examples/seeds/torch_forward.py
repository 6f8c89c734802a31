"""What is not to be done with tensors elsewhere (after the documentation of torch.multiprocessing)."""

import forklift
import forklift.multiprocessing as mp


def forwarder(queue, queue_2):
    # not going to work with CUDA tensors of torch
    x = queue.get()
    queue_2.put(x)


def cloner(queue, queue_2):
    # you need to create a process-local copy
    x = queue.get()
    x_clone = x.clone()
    x_clone.fill(2)
    queue_2.put(x_clone)


if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    queue, queue_2 = ctx.Queue(), ctx.Queue()

    tensor = forklift.zeros([3])
    for middle in (forwarder, cloner):
        p = ctx.Process(target=middle, args=(queue, queue_2))
        p.start()
        queue.put(tensor)
        p.join()  # whoever made and sent a tensor may be gone
        x = queue_2.get()
        tensor.fill(1)
        print(middle.__name__, x)

    # putting and getting from the same queue in the same process will likely end up with segfault
    queue.put(tensor)
    x = queue.get()
    x.fill(3)
    print("same process", tensor)
