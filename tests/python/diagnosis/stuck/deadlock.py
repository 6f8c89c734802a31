"""Two processes take two locks in opposite orders."""

import forklift.multiprocessing as mp


def work(first, second, both_hold):
    with first:
        both_hold.wait()
        with second:
            pass


if __name__ == "__main__":
    one, other, both_hold = mp.Lock(), mp.Lock(), mp.Barrier(2)
    processes = [
        mp.Process(target=work, args=(one, other, both_hold)),
        mp.Process(target=work, args=(other, one, both_hold)),
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
