"""The parent computes on an accelerator, its forked child on the CPU (after the same overview).

Without an accelerator, FORKLIFT_SIMULATE_DEVICE=Ascend simulates one.
"""

import forklift.multiprocessing as multiprocessing
from forklift import Tensor, context, ops


def child_process(q):
    y = ops.log(Tensor(2.0))
    q.put(y)
    return


if __name__ == "__main__":
    context.set_context(device_target="Ascend")
    # Child process may not be able to acquire resources when start_method is set to 'spawn' .
    multiprocessing.set_start_method("fork", force=True)
    print("parent process:ops.log(Tensor(2.0))=", ops.log(Tensor(2.0)))
    q = multiprocessing.Queue()
    p = multiprocessing.Process(target=child_process, args=(q,))
    p.start()
    print("child process:ops.log(Tensor(2.0))=", q.get())
    p.join()
