"""Pool, executors, spawn, managers and DataLoaders on the fork server, with modules imported beforehand."""

from __future__ import annotations

import importlib.util

import pytest
from fork_server_programs import Program

# EARLY tells whether `heavy` had been imported before this process ran its main module.
HEAD = """
import os, sys
EARLY = "heavy" in sys.modules
import heavy
import forklift.multiprocessing as mp
from multiprocessing import forkserver

def check(_=None):
    assert EARLY
    assert os.getppid() == heavy.PID    # which the server has imported
    return 1
"""
USERS = {
    "pool": """
with mp.get_context("forkserver").Pool(3) as pool:
    print(sum(pool.map(check, range(12), chunksize=1)))
""",
    "a pool's replacement": """
with mp.get_context("forkserver").Pool(1, maxtasksperchild=1) as pool:
    print(sum(pool.apply(check) for _ in range(12)))
""",
    "executor": """
from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor(3, mp_context=mp.get_context("forkserver")) as executor:
    print(sum(executor.map(check, range(12))))
""",
    "spawn": """
mp.start_processes(check, nprocs=3, start_method="forkserver")
context = mp.start_processes(check, nprocs=9, start_method="forkserver", join=False)
while not context.join():
    pass
print(3 + len(context.processes))
""",
    "manager": """
mp.set_start_method("forkserver")
with mp.Manager() as manager:
    numbers = manager.list(range(12))
    assert manager._process.is_alive()
    print(len(numbers))
""",
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("patched", [False, True], ids=["import", "python -m forklift"])
def test_their_processes_are_forked(program: Program, user: str, patched: bool) -> None:
    program.write("heavy", "import os\nPID = os.getpid()")
    main = "\n".join("    " + line for line in USERS[user].strip().splitlines())
    source = f'{HEAD}\nif __name__ == "__main__":\n{main}\n'
    options = ("-m", "forklift") if patched else ()
    assert program.main(source, *options) == (["12"], "")


LOADER = """
import os, sys
EARLY = "torch" in sys.modules
import torch
from {module} import DataLoader

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.tensor([index, index * index, EARLY, os.getppid()])

if __name__ == "__main__":
    from multiprocessing import forkserver
    loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context={context})
    for _ in range(2):
        rows = torch.cat(list(loader))
        assert rows[:, 1].tolist() == [i * i for i in range(24)]
        assert rows[:, 2].all()
        assert set(rows[:, 3].tolist()) == {{forkserver._forkserver._forkserver_pid}}
    print("done")
"""
LOADERS = {
    "ours": ("forklift.adapters.torch", '"forkserver"', ()),
    "torch's": (
        "torch.utils.data",
        "__import__('forklift.multiprocessing').multiprocessing.get_context('forkserver')",
        (),
    ),
    "torch's, python -m forklift": ("torch.utils.data", '"forkserver"', ("-m", "forklift")),
}


@pytest.mark.parametrize("loader", LOADERS)
def test_data_loaders(program: Program, loader: str) -> None:
    pytest.importorskip("torch")
    module, context, options = LOADERS[loader]
    assert program.main(LOADER.format(module=module, context=context), *options) == (["done"], "")


RUNTIMES = {
    "numpy": ("import numpy", "(numpy.ones((500, 500)) @ numpy.ones((500, 500)))[0, 0] == 500"),
    "torch": ("import torch", "(torch.ones(1500, 1500) @ torch.ones(1500, 1500))[0, 0] == 1500"),
    "sklearn": (
        "import numpy, sklearn.linear_model",
        "sklearn.linear_model.LinearRegression().fit(numpy.eye(300), numpy.ones(300)).score("
        "numpy.eye(300), numpy.ones(300)) == 1",
    ),
    "jax": ("import jax", "jax.numpy.ones((300, 300)).sum() == 90000"),
}


def test_runtimes_with_threads(program: Program) -> None:
    """The program computes with all of their threads, and so do its children, which the server has forked."""
    found = [parts for name, parts in RUNTIMES.items() if importlib.util.find_spec(name) is not None]
    imports = "\n".join(first for first, _ in found)
    compute = "\n".join(f"    assert {second}" for _, second in found)
    source = f"""
import os, sys
import forklift.multiprocessing as mp
{imports}

def compute():
{compute}

def work(queue):
    compute()
    queue.put(os.getppid())

if __name__ == "__main__":
    from multiprocessing import forkserver
    compute()
    context = mp.get_context("forkserver")
    queue = context.Queue()
    children = [context.Process(target=work, args=(queue,)) for _ in range(3)]
    for child in children:
        child.start()
    parents = {{queue.get(timeout=60) for _ in children}}
    print(parents == {{forkserver._forkserver._forkserver_pid}})
"""
    assert program.main(source) == (["True"], "")
