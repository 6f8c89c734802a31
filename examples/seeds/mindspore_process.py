"""A child process computes (after the overview of mindspore.multiprocessing)."""

import forklift.multiprocessing as multiprocessing
import torch


def child_process():
    y = torch.log(torch.tensor(2.0))
    print("log(tensor(2.0)) =", y)


if __name__ == "__main__":
    p = multiprocessing.Process(target=child_process)
    p.start()
    p.join()
