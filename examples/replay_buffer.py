"""Reinforcement learning: several actors play with one learner's network, and fill its replay buffer.

    python examples/replay_buffer.py --library torch        # torch.multiprocessing
    python examples/replay_buffer.py --library forklift     # the same program, another import

The game: a cart on a line is pushed left, not at all or right, and ought to stand still at the origin. The
network lies in shared memory, so the actors always play with what the learner has learned. Each plays its
episodes on request, with a seed of its own, so the results are the same to the last bit on both libraries.
"""

from __future__ import annotations

import argparse
import copy
import importlib
from typing import Any

import torch
from torch import nn

LIBRARIES = {"torch": "torch.multiprocessing", "forklift": "forklift.multiprocessing"}
CARTS, STEPS, CAPACITY = 16, 40, 50_000  # of an episode: carts and moments; of the buffer: transitions


def step(state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    position, speed = state.unbind(1)
    speed = (0.95 * speed + 0.1 * (action - 1)).clamp(-1, 1)
    position = (position + speed).clamp(-2, 2)
    return torch.stack([position, speed], 1), -position.abs() - 0.1 * speed.abs()


def play(network: Any, curiosity: float, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """One episode: states, actions, rewards and next states of all carts."""
    state, moments = torch.rand(CARTS, 2, generator=generator) * 2 - 1, []
    for _ in range(STEPS):
        action = network(state).detach().argmax(1)
        at_random = torch.rand(CARTS, generator=generator) < curiosity
        action = torch.where(at_random, torch.randint(3, (CARTS,), generator=generator), action)
        after, reward = step(state, action)
        moments.append((state, action, reward, after))
        state = after
    return tuple(torch.cat(each) for each in zip(*moments, strict=True))


def act(rank: int, network: Any, requests: Any, episodes: Any) -> None:
    """An actor's life: an episode for each request."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(rank)
    while (curiosity := requests.get()) is not None:
        episodes.put(play(network, curiosity, generator))


class Replay:
    """The latest transitions, in shared memory."""

    def __init__(self) -> None:
        actions, states = torch.zeros(CAPACITY, dtype=torch.long), torch.zeros(2, CAPACITY, 2)
        parts = [states[0], actions, torch.zeros(CAPACITY), states[1]]
        self.parts = [part.share_memory_() for part in parts]
        self.count = 0

    def add(self, episode: tuple[torch.Tensor, ...]) -> None:
        places = torch.arange(self.count, self.count + len(episode[0])) % CAPACITY
        for part, values in zip(self.parts, episode, strict=True):
            part[places] = values
        self.count += len(places)

    def sample(self, size: int) -> list[torch.Tensor]:
        places = torch.randint(min(self.count, CAPACITY), (size,))
        return [part[places] for part in self.parts]


def learn(network: Any, target: Any, optimizer: Any, replay: Replay) -> None:
    state, action, reward, after = replay.sample(256)
    with torch.no_grad():
        value = reward + 0.9 * target(after).max(1).values
    loss = nn.functional.smooth_l1_loss(network(state).gather(1, action[:, None])[:, 0], value)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", choices=LIBRARIES, default="forklift")
    parser.add_argument("--actors", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--method", choices=["fork", "spawn", "forkserver"], default="spawn")
    options = parser.parse_args()
    mp = importlib.import_module(LIBRARIES[options.library]).get_context(options.method)

    torch.manual_seed(1)
    torch.set_num_threads(1)
    network = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3)).share_memory()
    target, replay = copy.deepcopy(network), Replay()
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    ways = [(mp.Queue(), mp.Queue()) for _ in range(options.actors)]
    actors = [mp.Process(target=act, args=(rank, network, *way)) for rank, way in enumerate(ways)]
    for actor in actors:
        actor.start()
    for turn in range(options.rounds):
        for requests, _ in ways:
            requests.put(max(0.05, 1 - turn / 15))
        episodes = [episodes.get() for _, episodes in ways]  # all have played: now the network may change
        for episode in episodes:
            replay.add(episode)
        for _ in range(20):
            learn(network, target, optimizer, replay)
        target.load_state_dict(network.state_dict())
        print(f"round {turn}: reward {torch.cat([each[2] for each in episodes]).mean().item()!r}")
    for requests, _ in ways:
        requests.put(None)
    for actor in actors:
        actor.join()
    print(f"sum of the weights {sum(each.double().sum().item() for each in network.parameters())!r}")


if __name__ == "__main__":
    main()
