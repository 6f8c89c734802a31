"""A process is forked while another thread holds a lock of threading."""

import threading

import forklift.multiprocessing as mp

log_lock = threading.Lock()


def write_log():
    with log_lock:
        print("never")


def hold(held, end):
    with log_lock:
        held.set()
        end.wait()


if __name__ == "__main__":
    held, end = threading.Event(), threading.Event()
    threading.Thread(target=hold, args=(held, end), daemon=True).start()
    held.wait()
    child = mp.get_context("fork").Process(target=write_log)
    child.start()
    child.join()
