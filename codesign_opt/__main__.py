"""`python -m codesign_opt` is the command `codesign-opt`."""

import sys

from codesign_opt.cli.main import main

sys.exit(main())
