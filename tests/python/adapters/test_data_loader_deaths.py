"""forklift.adapters.torch.DataLoader when its workers, or the process that has it, are killed."""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import loader_datasets as datasets
import pytest
import support
from forklift.adapters.torch import DataLoader
from torch_support import torch

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
METHODS = ("fork", "spawn", "forkserver")
UNEXPECTED = r"DataLoader worker \(pid.*(killed by signal|exited unexpectedly)"


def made(dataset: Any, method: str = "fork", **options: Any) -> Any:
    torch.manual_seed(3)
    options = {"batch_size": 4, "num_workers": 2, "multiprocessing_context": method, **options}
    return DataLoader(dataset, **options)


def pids(iterator: Any) -> list[int]:
    return [each.process.pid for each in iterator.group.workers]


# --- the error


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_worker_is_an_error_at_once(method: str) -> None:
    iterator = iter(made(datasets.Stuck(4), method))
    next(iterator)
    killed = pids(iterator)[1]
    timer = threading.Timer(0.2, os.kill, (killed, signal.SIGKILL))  # while the loader waits
    timer.start()
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=UNEXPECTED) as caught:
        next(iterator)
    timer.join()
    assert str(killed) in str(caught.value)
    assert time.monotonic() - begin < 1.2
    datasets.kill_workers(iterator)


@pytest.mark.parametrize("method", METHODS)
def test_in_another_thread_too(method: str) -> None:
    """Where no signal handler helps."""
    iterator = iter(made(datasets.Stuck(4), method))
    next(iterator)
    caught: list[Any] = []

    def read() -> None:
        begin = time.monotonic()
        try:
            next(iterator)
        except RuntimeError as error:
            caught.extend((str(error), time.monotonic() - begin))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        support.until_asleep(thread.native_id)
        os.kill(pids(iterator)[1], signal.SIGKILL)
        support.until(lambda: caught, "the error")
    except RuntimeError:  # the main thread's, from torch's handler of SIGCHLD
        support.until(lambda: caught, "the error")
    message, seconds = caught
    assert "exited unexpectedly (worker 1 was killed by SIGKILL)" in message
    assert seconds < 1.2
    datasets.kill_workers(iterator)


def test_a_worker_that_leaves_is_an_error() -> None:
    class Leaving(datasets.Numbers):
        def __getitem__(self, index: int) -> Any:
            os._exit(0) if index == 6 else None
            return super().__getitem__(index)

    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=r"exited unexpectedly \(worker 1 with exit code 0\)"):
        list(made(Leaving()))
    assert time.monotonic() - begin < 3


def test_the_worker_of_a_later_batch() -> None:
    """It is noticed while another worker's batch is waited for."""
    iterator = iter(made(datasets.Stuck(0), num_workers=3))
    timer = threading.Timer(0.2, os.kill, (pids(iterator)[2], signal.SIGKILL))
    timer.start()
    with pytest.raises(RuntimeError, match=UNEXPECTED):
        next(iterator)
    timer.join()
    datasets.kill_workers(iterator)


@pytest.mark.parametrize("options", [{}, {"in_order": False}, {"num_workers": 1}, {"batch_size": None}])
def test_killed_at_any_moment(options: dict[str, Any]) -> None:
    """From a worker's first instruction on; the epoch would take much longer than the test allows."""
    for pause_ms in (0, 1, 2, 5, 10, 20, 40, 80):
        loader = made(datasets.Noisy(400_000), **options)
        iterator = iter(loader)
        worker = iterator.group.workers[-1].process
        timer = threading.Timer(pause_ms / 1_000, os.kill, (worker.pid, signal.SIGKILL))
        killed_at = time.monotonic() + pause_ms / 1_000
        with pytest.raises(RuntimeError, match=UNEXPECTED):
            exhaust(timer, iterator)
        assert time.monotonic() - killed_at < 2
        timer.join()
        del iterator
        assert worker.exitcode == -signal.SIGKILL


def exhaust(timer: threading.Timer, iterator: Any) -> None:
    timer.start()
    for _ in iterator:
        pass


# --- trying again


@pytest.mark.parametrize("method", METHODS)
def test_trying_again_gives_the_same_batches(method: str, tmp_path: Path) -> None:
    control = datasets.collected(made(datasets.Noisy(48)))
    dataset = datasets.Deadly(21, str(tmp_path), times=1)
    loader = made(dataset, method, on_worker_death="retry")
    assert datasets.collected(loader) == control
    assert [each.restarts for each in loader.report().workers] == [0, 1]  # 21 is in batch 5
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("index", [0, 3, 44, 47])
def test_the_first_and_the_last_batch(index: int, tmp_path: Path) -> None:
    control = datasets.collected(made(datasets.Noisy(48), shuffle=False))
    loader = made(datasets.Deadly(index, str(tmp_path), times=2), on_worker_death="retry")
    assert datasets.collected(loader) == control
    assert sum(each.restarts for each in loader.report().workers) == 2


def test_a_batch_that_kills_every_worker() -> None:
    with pytest.raises(RuntimeError, match=r"exited unexpectedly.*the 3rd one that made batch 5"):
        list(made(datasets.Deadly(21), on_worker_death="retry"))


def die(worker: int) -> None:
    if worker == 1:
        os._exit(3)


def test_a_worker_that_never_starts() -> None:
    loader = made(datasets.Noisy(), worker_init_fn=die, on_worker_death="retry")
    with pytest.raises(
        RuntimeError, match=r"worker 1 with exit code 3\), the 5th one in a row that sent nothing"
    ):
        list(loader)


class KilledAfter(datasets.Uneven):
    """Kills its worker before a certain element, once."""

    def __init__(self, number: int, noted: Path) -> None:
        super().__init__((30, 12, 21))
        self.number, self.noted = number, noted

    def __iter__(self) -> Any:
        for number, each in enumerate(super().__iter__()):
            if number == self.number and not self.noted.exists():
                self.noted.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield each


@pytest.mark.parametrize("persistent", [False, True])
def test_iterable_datasets_are_iterated_again(persistent: bool, tmp_path: Path) -> None:
    options = {"num_workers": 3, "persistent_workers": persistent}
    control = datasets.collected(made(datasets.Uneven((30, 12, 21)), **options), 2)
    loader = made(KilledAfter(11, tmp_path / "killed"), on_worker_death="retry", **options)
    assert datasets.collected(loader, 2) == control
    # Each of the three may come to the item before the first one's death is marked.
    assert 1 <= sum(each.restarts for each in loader.report().workers) <= 3


@pytest.mark.parametrize(
    "options", [{}, {"in_order": False}, {"persistent_workers": True}, {"prefetch_factor": 6}]
)
def test_a_storm(options: dict[str, Any]) -> None:
    """Workers are killed at any moment; in order, the program notices nothing but the time."""
    control = datasets.collected(made(datasets.Noisy(400), shuffle=True), 2)
    loader = made(datasets.Noisy(400), shuffle=True, on_worker_death="retry", **options)
    chance = random.Random(5)
    epochs = []
    for _ in range(2):
        batches = []
        iterator = iter(loader)
        progress = collections.Counter[int]()
        for number, batch in enumerate(iterator):
            batches.append(datasets.plain(batch))
            if number % 7 == 3:
                worker = chance.choice(iterator.group.workers)
                time.sleep(chance.random() * 0.01)
                if (
                    worker.received > progress[worker.number]
                ):  # or the same batch would be killed again and again
                    progress[worker.number] = worker.received
                    os.kill(worker.process.pid, signal.SIGKILL)
        epochs.append(batches)
    assert sum(each.restarts for each in loader.report().workers) > 6
    if options.get("in_order", True):
        if not options.get("persistent_workers"):
            assert epochs == control
        else:
            assert epochs == datasets.collected(
                made(datasets.Noisy(400), shuffle=True, persistent_workers=True), 2
            )
    else:
        for batches, expected in zip(epochs, control, strict=True):
            labels = [sorted(batch[1][1][2] for batch in each) for each in (batches, expected)]
            assert labels[0] == labels[1]


@pytest.mark.parametrize("method", METHODS)
def test_idle_workers_are_killed_between_epochs(method: str) -> None:
    control = datasets.collected(made(datasets.Noisy(), persistent_workers=True), 3)
    loader = made(datasets.Noisy(), method, persistent_workers=True, on_worker_death="retry")
    epochs = datasets.collected(loader)
    for each in loader._iterator.group.workers:
        os.kill(each.process.pid, signal.SIGKILL)
        each.process.join()
    epochs += datasets.collected(loader, 2)
    assert epochs == control


# --- the loader's process


PROGRAM = """
import json, os, sys, time
import loader_datasets as datasets
from forklift.adapters.torch import DataLoader

if __name__ == "__main__":
    loader = DataLoader(datasets.Stuck(8), batch_size=4, num_workers=2, multiprocessing_context=sys.argv[1],
                        on_worker_death=sys.argv[2])
    iterator = iter(loader)
    next(iterator), next(iterator)
    print(json.dumps([each.process.pid for each in iterator.group.workers]), flush=True)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("mode", ["raise", "retry"])
@pytest.mark.parametrize("method", METHODS)
def test_killing_the_program_ends_its_workers(method: str, mode: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM + "    next(iterator)\n")
    shm = set(os.listdir("/dev/shm"))
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, str(script), method, mode],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    assert process.stdout is not None
    workers = json.loads(process.stdout.readline())
    assert all(map(is_running, workers))
    process.kill()
    process.wait()
    process.stdout.close()
    support.until(lambda: not any(map(is_running, workers)), "the workers' end", 2.0)
    support.until(lambda: set(os.listdir("/dev/shm")) <= shm, "nothing left in /dev/shm", 2.0)


def test_a_program_that_ends_in_mid_epoch(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("Stuck(8)", "Numbers()"))
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script), "fork", "raise"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert not any(map(is_running, json.loads(done.stdout)))
