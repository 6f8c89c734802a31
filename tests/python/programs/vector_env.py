"""gymnasium's AsyncVectorEnv, with shared memory and without."""

import gymnasium
import numpy as np


class Camera(gymnasium.Env):
    """Shows noise that follows from the seed and the actions."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {}

    def step(self, action):
        self.steps += 1
        return self.look(), float(action), self.steps == 7, False, {"steps": self.steps}

    def look(self):
        return self.np_random.integers(0, 255, (84, 84, 3), dtype=np.uint8)


def main():
    for shared_memory in (True, False):
        envs = gymnasium.vector.AsyncVectorEnv([Camera] * 3, shared_memory=shared_memory)
        seen, _ = envs.reset(seed=1)
        print(seen.shape, seen.dtype, seen.sum(dtype=np.int64))
        for step in range(20):
            seen, rewards, ended, _, infos = envs.step(np.array([step % 4, 1, 2]))
            print(seen.sum(axis=(1, 2, 3), dtype=np.int64), rewards, ended, infos.get("steps"))
        envs.close()


if __name__ == "__main__":
    main()
