"""The core's name for `forklift.multiprocessing._pool.failures`."""

import sys

from forklift.multiprocessing._pool import failures

sys.modules[__name__] = failures
