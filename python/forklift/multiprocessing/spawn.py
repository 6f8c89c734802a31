"""``multiprocessing.spawn`` itself, under this package's name."""

import multiprocessing.spawn as _std
import sys
from multiprocessing.spawn import *  # noqa: F403

sys.modules[__name__] = _std
