"""A child waits for a condition that its parent has changed without a notification."""

import forklift.multiprocessing as mp


def wait_for_start(changed, started):
    with changed:
        while not started.value:
            changed.wait()


if __name__ == "__main__":
    changed, started = mp.Condition(), mp.Value("b", 0)
    child = mp.Process(target=wait_for_start, args=(changed, started))
    child.start()
    started.value = 0
    child.join()
