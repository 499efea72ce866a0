"""Entry point of the Hugging Face Space: the app in public mode."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # A Space runs this file from a clone without installing it; the packages are in the repository's root.
    root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root))

    # Every request of ours already disables tokens; this covers requests that libraries make by themselves.
    os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"

    from hfposemb.cli.space import first_sources, persistent_cache

    if "HFPOSEMB_CACHE" not in os.environ and (kept := persistent_cache()) is not None:
        os.environ["HFPOSEMB_CACHE"] = str(kept)

    from app import launch
    from app.server.reach import first_port

    # The Hub probes a Space at exactly one port.
    launch(first_sources(root), host=os.environ.get("GRADIO_SERVER_NAME") or "0.0.0.0", port=first_port(), public=True)
