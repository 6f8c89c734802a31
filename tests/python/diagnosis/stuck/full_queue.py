"""The reader of a bounded queue leaves after one message, and the writer goes on."""

import forklift
import forklift.multiprocessing as mp


def read_one(frames):
    frames.get()


if __name__ == "__main__":
    frames = mp.Queue(4)
    forklift.set_label(frames, "frames")
    reader = mp.Process(target=read_one, args=(frames,))
    reader.start()
    for i in range(100):
        frames.put(i)
