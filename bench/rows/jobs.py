"""Whole programs, ours and the other library's in turn: what a user gets from the exchange of one import.

job-photos and rl-4-actors run the examples of the project, each time in a fresh process, and joblib-cv a
cross-validation of scikit-learn. Both libraries do the same work to the last bit. The rows of DataLoaders are
in `loaders`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rows.spec import OURS, Library, Row, Scale

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TORCH = "torch.multiprocessing"
HEIGHT, WIDTH = 1080, 1920
BUFFERED = 4  # frames between two stages


@contextlib.contextmanager
def another_computes() -> Iterator[None]:
    """Runs another process that uses one processor all the time."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


# --- training


def _photos(library: Library, scale: Scale) -> float:
    """Batches a second that the learner trained on, two workers making them."""
    name = "forklift" if library.name == OURS else "stdlib"
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, str(EXAMPLES / "photo_crops.py"), "--library", name, "--json", out.name]
        command += ["--batches", str(scale.count(100, 5)), "--held-out", "1"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return float(json.loads(Path(out.name).read_text())["batches_per_s"])


def _photos_busy(library: Library, scale: Scale) -> float:
    with another_computes():
        return _photos(library, scale)


def _actors(library: Library, scale: Scale) -> float:
    """Rounds a second from the first to the last: four actors play, the learner learns."""
    name = "forklift" if library.name == OURS else "torch"
    rounds = scale.count(30, 5)
    command = [sys.executable, "-u", str(EXAMPLES / "replay_buffer.py"), "--library", name]
    command += ["--actors", "4", "--rounds", str(rounds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        ends = [time.perf_counter() for line in program.stdout if line.startswith("round ")]
    if program.returncode != 0 or len(ends) != rounds:
        raise RuntimeError(f"replay_buffer.py ended with {program.returncode} after {len(ends)} rounds")
    return (rounds - 1) / (ends[-1] - ends[0])


# --- a pipeline of images


def _camera(out: Any, count: int) -> None:
    """The first stage: frames of a bright disc that moves over noise."""
    import numpy as np

    noise = np.random.default_rng(1).integers(0, 60, (HEIGHT, WIDTH, 3), np.uint8)
    for number in range(count):
        frame: Any = noise.copy()
        left = 100 + number * 7 % (WIDTH - 200)
        frame[500:560, left : left + 60] = 250
        out.put((number, frame))
    out.put(None)


def _grey(source: Any, out: Any) -> None:
    """The second stage: 16 bits of brightness a pixel."""
    import numpy as np

    while (item := source.get()) is not None:
        number, frame = item
        grey = frame[:, :, 0].astype(np.uint16)
        grey += frame[:, :, 1]
        grey += frame[:, :, 2]
        out.put((number, grey))
        del item, frame, grey
    out.put(None)


def _pipeline(library: Library, scale: Scale) -> float:
    """Frames a second through three processes: 6.2 MB to the second, 4.1 MB to the third, a search."""
    import numpy as np

    context = library.context()
    count = scale.count(60, 10)
    frames, greys = context.Queue(BUFFERED), context.Queue(BUFFERED)
    stages = [
        context.Process(target=_camera, args=(frames, count)),
        context.Process(target=_grey, args=(frames, greys)),
    ]
    for stage in stages:
        stage.start()
    begin, taken = 0.0, 0
    while (item := greys.get()) is not None:
        number, grey = item
        columns = np.flatnonzero(grey[520] > 600)
        if (columns[0], len(columns)) != (100 + number * 7 % (WIDTH - 200), 60):
            raise ValueError("the disc is elsewhere")
        if taken == 0:
            begin = time.perf_counter()
        taken += 1
        del item, grey
    seconds = time.perf_counter() - begin
    for stage in stages:
        stage.join()
    return (taken - 1) / seconds


# --- cross-validation


def _cross_validation(library: Library, scale: Scale) -> float:
    """Milliseconds of 60 fits of a ridge classifier: twelve penalties, five folds, two workers."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported
    import joblib  # type: ignore[import-untyped,unused-ignore]
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.linear_model import RidgeClassifier
    from sklearn.model_selection import GridSearchCV

    backend = "loky"
    if library.name == OURS:
        import forklift.adapters.joblib

        backend = forklift.adapters.joblib.NAME
    images, labels = load_digits(return_X_y=True)
    penalties = np.logspace(-3, 3, scale.count(12, 2))
    with joblib.parallel_backend(backend, n_jobs=2):
        search = GridSearchCV(RidgeClassifier(), {"alpha": penalties}, cv=5)
        search.fit(images, labels)  # the workers are there, and have imported what they need
        begin = time.perf_counter()
        search.fit(images, labels)
        seconds = time.perf_counter() - begin
    if not search.best_score_ > 0.8:
        raise ValueError(f"the best score is {search.best_score_}")
    return seconds * 1e3


def _job(name: str, unit: str, measure: Callable[[Library, Scale], float], note: str, **more: Any) -> Row:
    return Row(name, unit, 1.0, more_is_better="/s" in unit, measure=measure, note=note, **more)


ROWS = (
    _job("job-photos", "batches/s", _photos, "examples/photo_crops.py: two workers, one learner"),
    _job("job-busy", "batches/s", _photos_busy, "the same beside a process that computes"),
    _job(
        "pipeline-1080p",
        "frames/s",
        _pipeline,
        "three processes: a camera, grey, a search",
    ),
    _job("rl-4-actors", "rounds/s", _actors, "examples/replay_buffer.py", peer=TORCH),
    _job("joblib-cv", "ms", _cross_validation, "GridSearchCV of scikit-learn, two workers", peer="joblib"),
)
