"""``multiprocessing.heap`` itself, under this package's name."""

import multiprocessing.heap as _std
import sys
from multiprocessing.heap import *  # noqa: F403

sys.modules[__name__] = _std
