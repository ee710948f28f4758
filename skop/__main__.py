"""``python -m skop`` is the console script ``skop``."""

import sys

from skop.cli import main

if __name__ == "__main__":
    sys.exit(main())
