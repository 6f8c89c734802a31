"""A torch whose storages are laid out like none that is known: nothing moves in place, everything works.
And an older one, which has no table of DLPack functions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

PROGRAM = """
    import gc, warnings
    import torch, torch_targets
    import forklift, forklift.multiprocessing as fmp
    from forklift import _core

    def held(t):
        s = t.untyped_storage()
        return _core._torch.held(s._cdata, s.data_ptr())

    {before}
    _core._torch.meet()
    assert _core._torch.known() is {known}
    ctx = fmp.get_context("fork")
    there, back = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=torch_targets.echo, args=(there, back))
    process.start()

    def echo(x):
        there.put(x)
        return back.get(timeout=30)

    # A storage with one user moves with its tensor, and needs no descriptor from then on.
    one = torch.arange(5.0)
    alias = one.numpy().copy()
    got = echo(one)
    assert held(one) and held(got), (held(one), held(got))
    got[1] = 8
    assert one.tolist() == [0, 8, 2, 3, 4]
    # An array made earlier keeps the memory that it looks at.
    seen = torch.arange(50_000)
    array = seen.numpy()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert echo(seen)[7] == 7
    assert held(seen) or "as a copy" in str(told[-1].message), told
    junk = [torch.full((50_000,), -1) for _ in range(20)]
    assert (array == range(50_000)).all()
    del seen, array, junk
    parameter = torch.nn.Parameter(torch.ones(3))
    got = echo(parameter)
    assert held(parameter) and type(got) is torch.nn.Parameter and got.requires_grad
    with torch.no_grad():
        got[0] = 5
    assert parameter[0] == 5
    again = echo([parameter, one, {{"x": one[2:]}}])
    assert again[2]["x"].tolist() == [2, 3, 4]
    assert again[1].untyped_storage()._cdata == again[2]["x"].untyped_storage()._cdata

    # One with several users goes torch's way: shared all the same.
    base = torch.zeros(6)
    view = base[2:]
    got = echo(view)
    got[0] = 9
    assert base[2] == 9 and view[0] == 9

    model = torch.nn.Linear(2, 3)
    got = echo(model)
    with torch.no_grad():
        got.weight.fill_(7)
    assert (model.weight == 7).all()
    assert echo(torch.zeros(0, 2)).shape == (0, 2)
    assert echo(torch.tensor(3)).item() == 3
    assert echo(torch.ones(3, dtype=torch.bfloat16)).dtype is torch.bfloat16
    queue = ctx.Queue(strict=True)
    try:
        queue.put(parameter * 2)
    except RuntimeError as error:
        assert "Cowardly" in str(error)
    else:
        raise AssertionError
    there.put(torch_targets.STOP)
    process.join(20)
    del one, parameter, got, again, base, view, model
    gc.collect()
    print(forklift.stats()["blocks"], forklift.audit(), process.exitcode)
"""

# How the probe fails: forbidden; a torch that lacks a name; words elsewhere; a self-test that does not hold.
WAYS = {
    "forbidden": "import os; os.environ['FORKLIFT_TORCH_PROBE'] = '0'",
    "no such name": "del torch._C._dispatch_keys",
    "other words": "import forklift.adapters.torch.tensors as a; learn = a._mechanics.learn; "
    "a._probe = lambda: learn([(id(object()), 1, 2, 1)] * 3, [(id(object()), 3, 4, 1)] * 3, [], [], [])",
    "unmapped": "import forklift.adapters.torch.tensors as a; learn = a._mechanics.learn; "
    "a._probe = lambda: learn([(4096, 1, 2, 1)] * 3, [(8192, 3, 4, 1)] * 3, "
    "[(1, 1, 1, 1, False, 0, 0, 1)] * 3, [1], [(4096, 2, 32)] * 2)",
    "self-test": "import forklift.adapters.torch.tensors as a; a._self_test = lambda: False",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_torch_that_is_not_known(way: str) -> None:
    run(WAYS[way], known=False)


def test_a_torch_before_dlpacks_exchange_table() -> None:
    run("del torch.Tensor.__dlpack_c_exchange_api__", known=True)


def run(before: str, known: bool) -> None:
    program = textwrap.dedent(PROGRAM.format(before=before, known=known))
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["0", "[]", "0"]


def test_torch_is_not_imported_without_need() -> None:
    code = (
        "import sys, numpy, forklift.multiprocessing as m; q = m.Queue(); q.put([object(), numpy.ones(9)]); "
        "q.get(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
