"""A spawned child computes on the CPU, its parent afterwards on an accelerator (after the same overview).

Without an accelerator, FORKLIFT_SIMULATE_DEVICE=Ascend simulates one.
"""

import forklift.multiprocessing as multiprocessing
from forklift import Tensor, context, ops


def child_process(q):
    # Child process may not be able to acquire resources when using the same resources as parent process.
    context.set_context(device_target="CPU")
    y = ops.log(Tensor(2.0))
    q.put(y)
    return


if __name__ == "__main__":
    context.set_context(device_target="Ascend")
    multiprocessing.set_start_method("spawn", force=True)
    q = multiprocessing.Queue()
    p = multiprocessing.Process(target=child_process, args=(q,))
    p.start()
    print("child process:ops.log(Tensor(2.0))=", q.get())
    p.join()
    # Child process may not be able to acquire resources when this compute task is executed before the child
    # process is created.
    print("parent process:ops.log(Tensor(2.0))=", ops.log(Tensor(2.0)))
