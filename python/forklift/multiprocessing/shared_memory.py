"""``multiprocessing.shared_memory`` itself, under this package's name."""

import multiprocessing.shared_memory as _std
import sys
from multiprocessing.shared_memory import *  # noqa: F403

sys.modules[__name__] = _std
