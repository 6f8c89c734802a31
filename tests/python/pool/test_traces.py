"""``forklift.use_opentelemetry()``: tasks are spans in their workers, children of the submitter's span."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import forklift
import pool_targets as targets
import pytest

pytest.importorskip("opentelemetry.sdk", reason="traces are OpenTelemetry's")

PROGRAM = Path(__file__).parents[1] / "telemetry_program.py"


def spans_of(tmp_path: Path, what: str, method: str) -> list[dict[str, Any]]:
    path = tmp_path / "spans"
    subprocess.run([sys.executable, str(PROGRAM), what, method, str(path)], check=True, timeout=90)
    return [json.loads(line) for line in path.read_text().splitlines()]


def named(spans: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for each in spans if each["name"] == name]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_task_is_a_child_of_the_submitters_span(tmp_path: Path, method: str) -> None:
    spans = spans_of(tmp_path, "styles", method)
    (outer,) = named(spans, "outer")
    assert {each["context"]["trace_id"] for each in spans} == {outer["context"]["trace_id"]}
    for name, count in {"square": 3 + 1 + 3, "add": 2, "within": 1, "refuse": 1}.items():
        tasks = named(spans, name)
        assert len(tasks) == count
        for each in tasks:
            assert each["parent_id"] == outer["context"]["span_id"]
            attributes = each["attributes"]
            assert attributes["forklift.pool"].startswith("Pool 1 of process ")
            assert attributes["forklift.worker"] in (0, 1)
            assert attributes["process.pid"] > 0
            assert attributes["code.function.name"].endswith(f".{name}")
    assert Counter(each["attributes"]["forklift.chunk"] for each in named(spans, "square")) == {2: 3, 1: 4}
    # The task's span is current while its function runs.
    (inner,) = named(spans, "inner")
    assert inner["parent_id"] == named(spans, "within")[0]["context"]["span_id"]


def test_a_failing_task_has_its_exception(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, "styles", "fork")
    (refused,) = named(spans, "refuse")
    assert refused["status"] == {"status_code": "ERROR", "description": "LookupError: no 1"}
    (event,) = refused["events"]
    assert event["name"] == "exception"
    assert event["attributes"]["exception.type"] == "LookupError"
    assert "in refuse" in event["attributes"]["exception.stacktrace"]
    assert {each["status"]["status_code"] for each in named(spans, "square")} == {"UNSET"}


@pytest.mark.parametrize("what", ["many", "calls"])
def test_the_context_is_the_submitters_whichever_thread_sends(tmp_path: Path, what: str) -> None:
    spans = spans_of(tmp_path, what, "fork")
    (outer,) = named(spans, "outer")
    squares = named(spans, "square")
    assert len(squares) == (4210 if what == "many" else 4202)
    assert {each["parent_id"] for each in squares} == {outer["context"]["span_id"]}
    if what == "calls":
        assert named(spans, "refuse")[0]["status"]["status_code"] == "ERROR"
        assert squares[0]["attributes"]["forklift.pool"].startswith("ProcessPoolExecutor ")


def test_a_killed_workers_span_is_lost_and_the_others_are_not(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, "kill", "fork")
    assert not named(spans, "die")
    assert len(named(spans, "square")) == 1


BY_ENVIRONMENT = """
import forklift, forklift.multiprocessing as mp
import sys
sys.path.insert(0, sys.argv[1])
import pool_targets as targets
if __name__ == "__main__":
    forklift.use_opentelemetry()
    with mp.get_context("spawn").Pool(1) as pool:
        assert pool.map(targets.square, range(4), 2) == [0, 1, 4, 9]
"""


def test_the_environment_makes_the_workers_provider(tmp_path: Path) -> None:
    program = tmp_path / "by_environment.py"
    program.write_text(BY_ENVIRONMENT)
    done = subprocess.run(
        [sys.executable, str(program), str(Path(__file__).parents[1])],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
        env={**os.environ, "OTEL_TRACES_EXPORTER": "console", "OTEL_SERVICE_NAME": "films"},
    )
    assert done.stdout.count('"name": "square"') == 2
    assert '"service.name": "films"' in done.stdout


def test_nothing_is_loaded_without_being_asked() -> None:
    check = (
        "import sys, forklift, forklift.multiprocessing as mp\n"
        "def loaded(): return [n for n in sys.modules if 'telemetry' in n]\n"
        "pool = mp.get_context('fork').Pool(1)\n"
        "executor = forklift.ProcessPoolExecutor(1, mp.get_context('fork'))\n"
        "assert pool.apply(loaded) == executor.submit(loaded).result() == loaded() == []\n"
        "pool.terminate(); executor.shutdown()\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)


def test_where_it_is_missing_the_error_names_the_line() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import forklift; forklift.use_opentelemetry()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: use_opentelemetry() needs opentelemetry: python -m pip install" in done.stderr


def test_a_context_that_cannot_be_made_or_read_fails_no_task(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails() -> bytes:
        raise LookupError("no context")

    raised: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: raised.append(str(each.exc_value)))
    context = forklift.multiprocessing.get_context("spawn")  # a worker that has Python's own hook
    with context.Pool(1) as pool:
        try:
            forklift._core.carry_task_context(fails)
            assert pool.apply(targets.square, (3,)) == 9
            assert raised == ["no context"]
            forklift._core.carry_task_context(lambda: b"not JSON")
            assert pool.apply(targets.square, (4,)) == 16
            assert "JSONDecodeError" in capfd.readouterr().err
            forklift._core.carry_task_context(lambda: b"x" * 70_000)  # too long: it stays behind
            assert pool.apply(targets.square, (5,)) == 25
        finally:
            forklift._core.carry_task_context(None)
