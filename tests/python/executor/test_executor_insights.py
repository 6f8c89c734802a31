"""``ProcessPoolExecutor(insights=True)``: a pool's figures (tests/python/pool/test_pool_insights.py)."""

from __future__ import annotations

from typing import Any

import executor_targets as targets
import forklift
import pytest
import support


def test_calls_are_counted(ctx: Any) -> None:
    with forklift.ProcessPoolExecutor(2, mp_context=ctx, insights=True) as executor:
        for number in range(5):
            assert executor.submit(targets.square, number).result(support.DEADLINE) == number * number
        assert sum(executor.map(targets.square, range(40), chunksize=10)) == sum(i * i for i in range(40))
        found = executor.insights()
        assert (found.tasks, found.items) == (5 + 4, 5 + 40)
    # After the shutdown: what had been done until then.
    assert executor.insights().tasks == 9
    assert "square(" in executor.insights().slowest[-1].task


def test_the_initializer_is_a_part_of_the_start(ctx: Any) -> None:
    executor = forklift.ProcessPoolExecutor(
        1, mp_context=ctx, initializer=targets.note, initargs=(1,), insights=True
    )
    with executor:
        executor.submit(targets.square, 2).result(support.DEADLINE)
        found = executor.insights()
    assert 0 < found.initializer < found.starting


def test_deaths_leave_the_figures(ctx: Any) -> None:
    with forklift.ProcessPoolExecutor(1, mp_context=ctx, on_death="fail-task", insights=True) as executor:
        executor.submit(targets.square, 2).result(support.DEADLINE)
        assert isinstance(executor.submit(targets.die).exception(support.DEADLINE), forklift.WorkerDiedError)
        executor.submit(targets.square, 2).result(support.DEADLINE)
        assert executor.insights().tasks == 2
        assert executor.insights().started == 2


def test_an_executor_without_them(ctx: Any) -> None:
    with forklift.ProcessPoolExecutor(1, mp_context=ctx) as executor:
        executor.submit(targets.square, 2).result(support.DEADLINE)
        with pytest.raises(ValueError, match="insights=True"):
            executor.insights()
    with (
        forklift.ProcessPoolExecutor(1, mp_context=ctx, insights=True) as executor,
        pytest.raises(ValueError, match="no call"),
    ):
        executor.insights()
