"""A pool over real data: the mean digit of each class, from scikit-learn's handwritten digits."""

import forklift.multiprocessing as mp
import numpy as np
from sklearn.datasets import load_digits


def mean_of(images):
    return images.mean(axis=0)


if __name__ == "__main__":
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8).astype(np.float32)
    with mp.Pool(2) as pool:
        means = pool.map(mean_of, [images[labels == digit] for digit in range(10)])
    shades = " .:-=+*#%@"
    for row in np.hstack([means[3], means[8]]):
        print("".join(shades[int(value * 9 / 16)] * 2 for value in row))
    nearest = [np.argmin([np.abs(image - mean).sum() for mean in means]) for image in images]
    accuracy = np.mean(np.array(nearest) == labels)
    assert accuracy > 0.85
    print(f"the nearest mean is the right one for {accuracy:.0%} of {len(images)} digits")
