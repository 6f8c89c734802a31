"""A function in another process (after study notes on multiprocessing in PyTorch)."""

import forklift.multiprocessing as mp


def func(arg1, arg2):
    print(f"{arg1} and {arg2}")


if __name__ == "__main__":
    arg1, arg2 = "this", "that"
    mp.set_start_method("spawn")
    p = mp.Process(target=func, args=(arg1, arg2))
    # run the process
    p.start()
    # wait for the process to finish
    print("Waiting for the process to finish...")
    p.join()
