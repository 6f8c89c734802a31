"""One holds a lock and waits for a message that the other one would put if it had the lock."""

import forklift.multiprocessing as mp


def answer(lock, asked, answers):
    asked.wait()
    with lock:
        answers.put("here")


if __name__ == "__main__":
    lock, asked, answers = mp.Lock(), mp.Event(), mp.Queue()
    mp.Process(target=answer, args=(lock, asked, answers)).start()
    with lock:
        asked.set()
        print(answers.get())
