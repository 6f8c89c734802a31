"""``multiprocessing.resource_tracker`` itself, under this package's name."""

import multiprocessing.resource_tracker as _std
import sys
from multiprocessing.resource_tracker import *  # noqa: F403

sys.modules[__name__] = _std
