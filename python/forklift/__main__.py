"""``python -m forklift``: see forklift.cli.command."""

import sys

from forklift.cli.command import command as command
from forklift.cli.command import main

if __name__ == "__main__":
    main(sys.argv[1:])
