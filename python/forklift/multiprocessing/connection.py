"""``multiprocessing.connection`` itself, under this package's name."""

import multiprocessing.connection as _std
import sys
from multiprocessing.connection import *  # noqa: F403

sys.modules[__name__] = _std
