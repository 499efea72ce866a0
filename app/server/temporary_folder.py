"""The folder in which Gradio keeps the files that it serves and takes: one for each process."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "GRADIO_TEMP_DIR"


def own_folder() -> None:
    """Give Gradio a new folder, which is removed when the process ends, unless the environment names one.

    Gradio's default is one folder for the whole machine, where only the user who started an app first may write.
    """
    if os.environ.get(VARIABLE):
        return
    folder = tempfile.mkdtemp(prefix="hfposemb-gradio-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = str(Path(folder).resolve())  # as Gradio compares it
