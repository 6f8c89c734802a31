"""``multiprocessing.dummy`` itself, under this package's name."""

import multiprocessing.dummy as _std
import multiprocessing.dummy.connection as _connection
import sys
from multiprocessing.dummy import *  # noqa: F403

sys.modules[__name__] = _std
sys.modules[__name__ + ".connection"] = _connection
