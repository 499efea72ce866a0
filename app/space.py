"""The entry point of the Hugging Face Space: the app in public mode."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # A Space runs this file from a clone in which nothing is installed: the packages stand in the repository's root.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

    # Every request says for itself that it wants no token; this holds for whatever a library asks on its own.
    os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"

    from app import launch

    launch(host="0.0.0.0", public=True)
