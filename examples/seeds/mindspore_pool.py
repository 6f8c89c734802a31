"""A pool maps a function over tensors (after the overview of mindspore.multiprocessing)."""

import forklift.multiprocessing as multiprocessing
import torch


def child_process(x):
    return torch.log(x)


if __name__ == "__main__":
    with multiprocessing.Pool(processes=2) as pool:
        inputs = [torch.tensor(2.0), torch.tensor(2.0)]
        outputs = pool.map(child_process, inputs)
        print("log(tensor(2.0)) =", outputs)
