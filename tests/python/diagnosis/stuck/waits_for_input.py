"""A child asks a question at the terminal that nobody sees."""

import os

import forklift.multiprocessing as mp


def ask():
    os.read(0, 1)


if __name__ == "__main__":
    child = mp.Process(target=ask)
    child.start()
    child.join()
