"""Runs the ``headrace`` command as ``python -m headrace``, for launchers that start a module, such as torchrun."""

import sys

from headrace.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
