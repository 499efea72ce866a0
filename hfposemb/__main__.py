"""Entry point of ``python -m hfposemb``."""

import sys

from .cli.entry import main

sys.exit(main())
