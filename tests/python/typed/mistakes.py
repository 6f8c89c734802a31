"""Mistakes of a program, each with what mypy --strict has to say about its line."""

from __future__ import annotations

import ctypes

import forklift
import forklift.multiprocessing as mp
import numpy as np
from forklift.multiprocessing import Lock, Pipe, Pool, Queue, SimpleQueue, Value, connection, pool, queues


def square(x: int) -> float:
    return x * x / 2


def queue_mistakes(numbers: Queue[int], names: SimpleQueue[str]) -> str:
    numbers.put("one")  # E: arg-type
    numbers.put(1, timeout="soon")  # E: arg-type
    numbers.put(1, tiemout=1)  # E: call-arg
    numbers.puts(1)  # E: attr-defined
    names.put(1)  # E: arg-type
    names.get(timeout=1)  # E: call-overload
    numbers.get_nowait().upper()  # E: attr-defined
    Queue(maxsiz=3)  # E: call-arg
    Queue("3")  # E: arg-type
    queues.Quue()  # E: attr-defined
    mp.Quue()  # E: attr-defined
    return numbers.get()  # E: return-value


def lock_mistakes() -> None:
    lock = Lock()
    lock.aquire()  # E: attr-defined
    lock.acquire(timeout="1")  # E: arg-type
    Lock(1)  # E: call-arg
    number: int = mp.Event().is_set  # E: assignment
    mp.Event().signal()  # E: attr-defined
    mp.Semaphore("1")  # E: arg-type
    mp.Barrier()  # E: call-arg
    print(lock.value, number)  # E: attr-defined


def pool_mistakes() -> None:
    Pool(timeot=1)  # E: call-arg
    Pool("4")  # E: arg-type
    mp.get_context("spawn").Pool(logs=True)  # E: call-arg
    pool.Pool(2, warm_spares=True)  # E: call-arg
    workers = Pool(2)
    workers.map(square, ["a"])  # E: arg-type
    workers.map(square, [1], progres=True)  # E: call-arg
    workers.apply(square, (1,), timeout="1")  # E: arg-type
    text: str = workers.apply(square, (1,))  # E: assignment
    texts: list[str] = workers.map(square, [1])  # E: list-item arg-type
    workers.apply_async(square, (1,)).result()  # E: attr-defined
    workers.imap(square, [1]).nxt()  # E: attr-defined
    workers.mapp(square, [1])  # E: attr-defined
    print(text, texts)


def other_mistakes(array: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    first, second = Pipe()
    first.sendd(1)  # E: attr-defined
    Pipe(duplx=False)  # E: call-arg
    typed: connection.Connection[int, str] = first
    typed.send("a")  # E: arg-type
    number: int = typed.recv()  # E: assignment
    print(Value(ctypes.c_int, 0).vlue)  # E: attr-defined
    wrong: str = Value(ctypes.c_int, 0).value  # E: assignment
    mp.get_context("spawn").Qeue()  # E: attr-defined
    mp.Process(traget=square)  # E: call-arg
    shared: str = forklift.share(array)  # E: assignment
    frozen: dict[str, int] = forklift.freeze({"a": 1})  # E: assignment
    forklift.shar(array)  # E: attr-defined
    print(number, wrong, shared, frozen, second.closd)  # E: attr-defined
