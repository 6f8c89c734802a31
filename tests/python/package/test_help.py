"""What help() tells of the constructors: what they make, and every option."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any

import forklift.multiprocessing as mp
import pytest
from forklift.multiprocessing import pool, queues

MAKERS = (
    "Queue JoinableQueue SimpleQueue Lock RLock Condition Semaphore BoundedSemaphore Event Barrier Pipe "
    "RawValue RawArray Value Array Manager Pool"
)


def plain_help(thing: Any) -> str:
    return pydoc.plain(pydoc.render_doc(thing))


@pytest.mark.parametrize("name", MAKERS.split())
def test_a_constructor_says_what_it_makes(name: str) -> None:
    made_by: Any = getattr(mp, name)
    assert name in plain_help(made_by)
    assert not made_by.__doc__.startswith("Returns"), "the standard library's phrase, which says nothing"
    assert len(made_by.__doc__.split()) > 5


def test_the_options_are_in_the_signature() -> None:
    options = inspect.signature(mp.Pool).parameters
    assert [each for each in inspect.signature(pool.Pool).parameters if each != "context"] == list(options)
    assert inspect.Parameter.VAR_KEYWORD not in {each.kind for each in options.values()}
    for name, option in options.items():
        if option.kind is option.KEYWORD_ONLY:
            assert name in (mp.Pool.__doc__ or "")
            assert name in (pool.Pool.__doc__ or "")
    for name, kind in {"Queue": queues.Queue, "SimpleQueue": queues.SimpleQueue}.items():
        given = set(inspect.signature(getattr(mp, name)).parameters)
        assert given == set(inspect.signature(kind).parameters) - {"ctx"}
        for method in ("put", "get", "loan"):
            assert method in plain_help(kind)
    with pytest.raises(TypeError, match="timeot"):
        mp.Pool(1, timeot=1)  # type: ignore[call-arg]
