"""``python -m hfposemb`` is ``hfposemb``."""

import sys

from .entry import main

sys.exit(main())
