"""``multiprocessing.forkserver`` itself, under this package's name."""

import multiprocessing.forkserver as _std
import sys
from multiprocessing.forkserver import *  # noqa: F403

sys.modules[__name__] = _std
