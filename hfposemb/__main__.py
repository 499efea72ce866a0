"""``python -m hfposemb`` is ``hfposemb``."""

import sys

from .cli import main

sys.exit(main())
