"""The entry point of the Hugging Face Space: the app in public mode."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # A Space runs this file from a clone in which nothing is installed: the packages stand in the repository's root.
    root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root))

    # Every request says for itself that it wants no token; this holds for whatever a library asks on its own.
    os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"

    from app import launch
    from app.server.reach import first_port
    from hfposemb.cli.space import first_sources

    # A Space is looked for at one port, and at no other.
    launch(first_sources(root), host=os.environ.get("GRADIO_SERVER_NAME") or "0.0.0.0", port=first_port(), public=True)
