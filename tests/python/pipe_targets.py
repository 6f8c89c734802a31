"""Functions that the children of the pipe tests run; fresh interpreters import them from here."""

from __future__ import annotations

import os
import signal
import socket
from multiprocessing import reduction
from typing import Any


def answer(end: Any, *others: Any) -> None:
    """Answer each object with its double, until the other end is closed."""
    for other in others:
        other.close()
    while True:
        try:
            end.send(end.recv() * 2)
        except EOFError:
            return


def hold(end: Any, ready: Any) -> None:
    """Keep an end until this process is killed."""
    ready.set()
    signal.pause()
    end.close()


def send_many(end: Any, first: int, count: int) -> None:
    for i in range(count):
        end.send(first + i)


def receive_many(end: Any, results: Any) -> None:
    got = []
    while (value := end.recv()) is not None:
        got.append(value)
    results.put(got)


def use_connections(queue: Any) -> None:
    """Answer on each connection that is received from the queue (or connection)."""
    take = getattr(queue, "get", None) or queue.recv
    while (end := take()) is not None:
        end.send(("seen", end.recv()))
        end.close()


def take_handle(end: Any) -> None:
    """Receive a message, a descriptor and a message; answer with what the descriptor gives to read."""
    first = end.recv()
    fd = reduction.recv_handle(end)
    second = end.recv()
    with socket.socket(fileno=fd) as got:
        end.send((first, second, got.recv(100)))


def flood(end: Any) -> None:
    payload = os.urandom(5000)
    while True:
        end.send(payload)


def drain(end: Any) -> None:
    while True:
        end.recv()
