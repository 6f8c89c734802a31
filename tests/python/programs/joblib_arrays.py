"""joblib on its multiprocessing backend, with arrays as arguments and results."""

import joblib
import numpy as np


def spectrum(array, scale):
    return np.abs(np.fft.rfft(array * scale))


def main():
    arrays = [np.random.default_rng(i).random(50_000) for i in range(12)]
    for limit in ("1M", None):  # None: through the queues, whatever the size
        found = joblib.Parallel(n_jobs=2, backend="multiprocessing", max_nbytes=limit)(
            joblib.delayed(spectrum)(array, scale=i) for i, array in enumerate(arrays)
        )
        for each in found:
            print(each.shape, each.dtype, f"{each.sum():.6f}")


if __name__ == "__main__":
    main()
