"""``multiprocessing.resource_sharer`` itself, under this package's name."""

import multiprocessing.resource_sharer as _std
import sys
from multiprocessing.resource_sharer import *  # noqa: F403

sys.modules[__name__] = _std
