"""``multiprocessing.synchronize`` itself, under this package's name."""

import multiprocessing.synchronize as _std
import sys
from multiprocessing.synchronize import *  # noqa: F403

sys.modules[__name__] = _std
