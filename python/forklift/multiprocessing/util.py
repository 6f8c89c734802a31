"""``multiprocessing.util`` itself, under this package's name."""

import multiprocessing.util as _std
import sys
from multiprocessing.util import *  # noqa: F403

sys.modules[__name__] = _std
