"""``python -m tilefleet``: the same as the command ``tilefleet``."""

from tilefleet.cli import main

if __name__ == "__main__":
    main()
