"""Per-process folder for the files that Gradio serves and receives."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "GRADIO_TEMP_DIR"


def own_folder() -> None:
    """Give Gradio a new folder, removed at exit, unless the environment sets one.

    Gradio's default is one folder for the whole machine, where only the user who started an app first may write.
    """
    if os.environ.get(VARIABLE):
        return
    folder = tempfile.mkdtemp(prefix="hfposemb-gradio-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = str(Path(folder).resolve())  # resolved, because Gradio compares resolved paths
