"""``multiprocessing.dummy`` itself, under this package's name."""

import multiprocessing.dummy as _std
import sys
from multiprocessing.dummy import *  # noqa: F403

sys.modules[__name__] = _std
