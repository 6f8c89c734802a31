"""The core's name for `forklift.objects.frozen`."""

import sys

from forklift.objects import frozen

sys.modules[__name__] = frozen
