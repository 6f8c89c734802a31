"""The parts of `forklift.adapters.torch.DataLoader`.

- `block`: the memory that the loader shares with one of its workers: tasks, counters, random states
- `randomness`: the random states of a process as bytes
- `collate`: torch's collate functions, with their results in the arena
- `worker`: what a worker process runs
- `group`: the workers as the loader's process sees them: tasks to them, batches from them, their deaths
- `source`: the indices of each batch, from the samplers
- `iterator`: the iterators that the loader returns
- `state`: what ``state_dict()`` holds
- `report`: what ``report()`` returns
"""
