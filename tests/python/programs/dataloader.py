"""torch's DataLoader with four workers over arrays."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Arrays(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        return rng.random((3, 64, 64), dtype=np.float32), index


def main():
    torch.set_num_threads(1)
    loader = DataLoader(Arrays(), batch_size=8, num_workers=4, persistent_workers=True)
    for epoch in range(2):
        for batch, labels in loader:
            print(epoch, labels.tolist(), batch.dtype, tuple(batch.shape), f"{batch.double().sum():.6f}")


if __name__ == "__main__":
    main()
