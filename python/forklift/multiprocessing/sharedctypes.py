"""``multiprocessing.sharedctypes`` itself, under this package's name."""

import multiprocessing.sharedctypes as _std
import sys
from multiprocessing.sharedctypes import *  # noqa: F403

sys.modules[__name__] = _std
