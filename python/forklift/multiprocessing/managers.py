"""``multiprocessing.managers`` itself, under this package's name."""

import multiprocessing.managers as _std
import sys
from multiprocessing.managers import *  # noqa: F403

sys.modules[__name__] = _std
