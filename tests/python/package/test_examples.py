"""Every example runs, in a reduced size where it has one, and says what it should."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"


def run(*command: str | Path, end_of_another: str = "") -> str:
    """The program's output. `end_of_another`: what it may fail with after that, by a library's fault."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        # Buffered: what one process prints comes in one piece.
        env={**os.environ, "PYTHONWARNINGS": "default", "PYTHONUNBUFFERED": ""},
    )
    if end_of_another and end_of_another in done.stderr:
        return done.stdout
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


def names(folder: str) -> list[str]:
    return sorted(path.relative_to(EXAMPLES).as_posix() for path in (EXAMPLES / folder).glob("*.py"))


def test_there_are_examples() -> None:
    assert len(names("tour")) >= 9
    assert len(names("seeds")) == len(SAYS)


@pytest.mark.parametrize("program", names("tour"))
def test_tour(program: str) -> None:
    assert run(program).strip()  # the programs check their own results


def test_traces() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="traces are OpenTelemetry's")
    said = run("traces.py").splitlines()
    assert said[:2] == ["failed: no such scene", "film"]
    assert said[2:8] == ["  render of 2 items", "    light", "    light"] * 2
    assert said[8:] == ["  render: ValueError: no such scene", "    light"]


def test_monte_carlo() -> None:
    said = run("monte_carlo.py", "--tasks", "11", "--deaths")
    assert said.startswith("pi is about 3.1")
    assert said.endswith("; 1 workers died\n")


LOG_2 = "Tensor(shape=[], dtype=Float32, value= 0.693147)"
TEN = [f"hello from process {i}" for i in range(10)]
# What each program prints; what several processes print comes in any order.
SAYS = {
    "seeds/mindspore_process.py": ["ops.log(Tensor(2.0))= 0.6931472"],
    "seeds/mindspore_pool.py": ["ops.log(Tensor(2.0))= [" + ", ".join([LOG_2] * 2) + "]"],
    "seeds/mindspore_fork_after_computing.py": [
        "parent process:ops.log(Tensor(2.0))= 0.6931472",
        "child process:ops.log(Tensor(2.0))= 0.6931472",
    ],
    "seeds/mindspore_fork_on_ascend.py": [
        "parent process:ops.log(Tensor(2.0))= 0.6931472",
        "child process:ops.log(Tensor(2.0))= 0.6931472",
    ],
    "seeds/mindspore_spawn.py": [
        "child process:ops.log(Tensor(2.0))= 0.6931472",
        "parent process:ops.log(Tensor(2.0))= 0.6931472",
    ],
    "seeds/notes_life_cycle.py": [
        "new: False None None",
        "running, blocked: True None True",
        "terminated: False 3",
    ],
    "seeds/notes_function.py": ["Waiting for the process to finish...", "this and that"],
    "seeds/notes_queue.py": [None, *TEN, "Waiting for the processes to finish..."],
    "seeds/notes_pipe.py": [
        line
        for i in range(3)
        for line in (
            f"hello from process {i}",
            f"hello to process {i}",
            f"process {i} has hung up",
        )
    ],
    "seeds/notes_lock.py": [*TEN, "Waiting for the processes to finish..."],
    "seeds/notes_shared_memory.py": ["3.1415927", "[0, -1, -2, -3, -4, -5, -6, -7, -8, -9]"],
    "seeds/notes_manager.py": ["{1: '1', '2': 2, 0.25: None}", "[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]"],
    "seeds/torch_sender.py": [f"=== ITER {i} ===" for i in range(10)],
    "seeds/torch_forward.py": ["forwarder [1. 1. 1.]", "cloner [2. 2. 2.]", "same process [3. 3. 3.]"],
    "seeds/torch_events.py": [
        "[0. 0. 0. 0.]",
        "[1. 1. 1. 1.]",
        "[2. 2. 2. 2.]",
        "the producer ended with 0",
    ],
}


def with_start_method(program: str, method: str, folder: Path) -> Path:
    """A copy of the program in which every process is started by this method."""
    text = (EXAMPLES / program).read_text()
    text, chosen = re.subn(r'(set_start_method|get_context)\("\w+"', rf'\1("{method}"', text)
    if not chosen:
        main = 'if __name__ == "__main__":\n'
        choose = f'__import__("forklift.multiprocessing").multiprocessing.set_start_method("{method}")'
        assert main in text
        text = text.replace(main, f"{main}    {choose}\n")
    copy = folder / Path(program).name
    copy.write_text(text)
    return copy


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("program", names("seeds"))
def test_other_packages_programs(
    program: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program == "seeds/mindspore_fork_on_ascend.py" and method != "fork":
        pytest.skip("its parent holds the accelerator, which a child of another start method would need")
    monkeypatch.setenv("FORKLIFT_SIMULATE_DEVICE", "Ascend")
    said = run(with_start_method(program, method, tmp_path)).splitlines()
    expected = SAYS[program]
    assert len(said) == len(expected)
    if expected[0] is None:
        assert 0 <= int(said[0]) <= 10  # qsize()
        said, expected = said[1:], expected[1:]
    assert sorted(said) == sorted(filter(None, expected))


def test_the_demo_runs_other_packages_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORKLIFT_SIMULATE_DEVICE", raising=False)
    found = importlib.util.spec_from_file_location("demo", EXAMPLES / "demo.py")
    assert found is not None
    assert found.loader is not None
    demo = importlib.util.module_from_spec(found)
    found.loader.exec_module(demo)
    steps = demo.Steps()
    demo.seeds(steps)
    assert steps.failed == []


def test_the_real_job_gives_the_same_losses_on_both_libraries(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    few = ["--batches", "20", "--held-out", "2", "--size", "32"]
    said = run("photo_crops.py", *few, "--json", out)
    theirs, ours = json.loads(out.read_text())
    assert (theirs["library"], ours["library"]) == ("stdlib", "forklift")
    assert len(ours["losses"]) == 20
    assert ours["losses"] == theirs["losses"]
    assert ours["accuracy"] == theirs["accuracy"]
    assert "the same to the last bit" in said


def test_the_real_job_gives_the_same_losses_on_a_pool(tmp_path: Path) -> None:
    few = ["--batches", "8", "--held-out", "1", "--size", "16", "--json"]
    run("photo_crops.py", "--library", "forklift", *few, tmp_path / "queue")
    run("photo_cluster.py", *few, tmp_path / "pool")
    queue, pool = (json.loads((tmp_path / name).read_text()) for name in ("queue", "pool"))
    assert pool["losses"] == queue["losses"]
    assert pool["accuracy"] == queue["accuracy"]


@pytest.mark.weekly
def test_the_real_job_learns(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    run("photo_crops.py", "--library", "forklift", "--batches", "150", "--held-out", "4", "--json", out)
    result: dict[str, Any] = json.loads(out.read_text())
    assert result["accuracy"] > 0.35  # of ten classes
    assert result["losses"][-1] < result["losses"][0]


# --- programs of torch, with the name of the library as an argument


def on_both(program: str, *arguments: str) -> tuple[str, str]:
    theirs, ours = (run(program, "--library", library, *arguments) for library in ("torch", "forklift"))
    return theirs, ours


# Start methods whose children import torch anew. By fork the examples run each time.
FRESH = [pytest.param(method, marks=pytest.mark.weekly) for method in ("spawn", "forkserver")]


def accuracy(said: str) -> float:
    return float(re.findall(r"accuracy (\S+?),?\s", said + " ")[-1])


@pytest.mark.parametrize("method", ["fork", *FRESH])
def test_hogwild_with_one_worker_is_the_same_on_both(method: str) -> None:
    theirs, ours = on_both("hogwild.py", "--workers", "1", "--epochs", "3", "--method", method)
    assert len(ours.splitlines()) == 4
    assert ours == theirs


@pytest.mark.parametrize("library", [pytest.param("torch", marks=pytest.mark.weekly), "forklift"])
def test_hogwild_learns(library: str) -> None:
    said = run("hogwild.py", "--library", library, "--workers", "3")
    assert accuracy(said) > 0.9


def test_the_replay_buffer_is_the_same_on_both() -> None:
    theirs, ours = on_both("replay_buffer.py")
    assert ours == theirs
    rewards = [float(each) for each in re.findall(r"reward (\S+)", ours)]
    assert len(rewards) == 40
    assert sum(rewards[-5:]) / 5 > 0.5 * sum(rewards[:5]) / 5  # both are negative


@pytest.mark.parametrize("method", ["fork", pytest.param("forkserver", marks=pytest.mark.weekly)])
def test_the_replay_buffer_on_other_start_methods(method: str) -> None:
    theirs, ours = on_both("replay_buffer.py", "--rounds", "3", "--method", method)
    assert ours == theirs


def test_ddp_is_the_same_on_both_backends() -> None:
    # Gloo's threads outlive the group. One that frees a tensor while the interpreter ends aborts the process,
    # on a loaded machine once in ten runs: pytorch/pytorch#190489, torch 2.13.
    aborted = "terminate called without an active exception"
    theirs, ours = run("ddp.py", "--backend", "gloo", end_of_another=aborted), run("ddp.py")
    # Of two numbers the sum is the same in any order.
    assert ours == theirs
    assert ours.endswith("the same weights at all 2 ranks: True\n")
    assert accuracy(ours) > 0.9


@pytest.mark.parametrize("method", ["fork", *FRESH])
def test_data_loader(method: str) -> None:
    theirs, ours = on_both("data_loader.py", "--epochs", "1", "--method", method)
    assert len(ours.splitlines()) == 2
    assert ours == theirs


@pytest.mark.weekly
def test_the_data_loader_learns_without_a_change() -> None:
    ours = run("data_loader.py", "--epochs", "4")
    assert accuracy(ours) > 0.6
    assert run("-m", "forklift", "data_loader.py", "--library", "torch", "--epochs", "4") == ours


def test_simulator(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    run("simulator.py", "--steps", "50", "--json", out)
    result = json.loads(out.read_text())
    assert result["frames"] == 50
    assert result["mean_error"] < 2.0
    assert result["mean_error"] == pytest.approx(result["mean_error_there"])


def test_the_readme_says_what_its_example_prints(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    code, rest = text.split("```python\n", 1)[1].split("```", 1)
    said = rest.split("```\n", 1)[1].split("```", 1)[0]
    program = tmp_path / "readme.py"
    program.write_text(code)
    assert run(program) == said


@pytest.mark.skipif(not (ROOT / "bench" / "RESULTS.md").exists(), reason="nothing was measured yet")
def test_the_readmes_figures_are_the_measured_ones() -> None:
    run(ROOT / "tools" / "readme_table.py", "--check")
