"""``python -m tilefleet``: the same as the command ``tilefleet``."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working folder: whatever lies there is no part of this

from tilefleet.cli import main

if __name__ == "__main__":
    main()
