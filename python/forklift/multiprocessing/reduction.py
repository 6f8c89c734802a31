"""``multiprocessing.reduction`` itself, under this package's name."""

import multiprocessing.reduction as _std
import sys
from multiprocessing.reduction import *  # noqa: F403

sys.modules[__name__] = _std
