"""``python -m hfposemb`` is ``hfposemb``."""

import sys

from .cli.entry import main

sys.exit(main())
