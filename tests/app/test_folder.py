"""The folder of files that Gradio serves: this process's own, so that other users of the machine stand in no way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

SHOW = """
import os, stat, sys
from hfposemb.app.server.temporary_folder import own_folder
own_folder()
own_folder()
from gradio.utils import get_upload_folder
print(get_upload_folder(), oct(stat.S_IMODE(os.stat(get_upload_folder()).st_mode)), sep="\\n")
"""


def shown(folder: Path, **variables: str) -> list[str]:
    """Return the folder that Gradio uses in a process of its own, and its mode."""
    environment = {**os.environ, "TMPDIR": str(folder), **variables}
    if not variables:
        environment.pop("GRADIO_TEMP_DIR", None)
    done = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_gradio_has_a_folder_that_goes_with_the_process(tmp_path: Path) -> None:
    folder, mode = shown(tmp_path)
    assert Path(folder).parent == tmp_path.resolve()
    assert Path(folder).name.startswith("hfposemb-gradio-")
    assert int(mode, 8) == stat.S_IRWXU
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_the_user_chose_stays(tmp_path: Path) -> None:
    (tmp_path / "chosen").mkdir()
    assert shown(tmp_path, GRADIO_TEMP_DIR=str(tmp_path / "chosen"))[0] == str(tmp_path / "chosen")
