"""``multiprocessing.process`` itself, under this package's name."""

import multiprocessing.process as _std
import sys
from multiprocessing.process import *  # noqa: F403

sys.modules[__name__] = _std
