"""``multiprocessing.dummy.connection`` itself, under this package's name."""

import multiprocessing.dummy.connection as _std
import sys
from multiprocessing.dummy.connection import *  # noqa: F403

sys.modules[__name__] = _std
