"""The folder of files that Gradio serves: this process's own, so that other users of the machine stand in no way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from gradio.utils import get_upload_folder
from hfposemb.app import own_folder

SHOW = """
import os, stat, sys
from hfposemb.app import own_folder
own_folder()
own_folder()
from gradio.utils import get_upload_folder
print(get_upload_folder(), oct(stat.S_IMODE(os.stat(get_upload_folder()).st_mode)), sep="\\n")
"""


def test_gradio_has_a_folder_that_goes_with_the_process(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("GRADIO_TEMP_DIR", None)
    done = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True)
    folder, mode = done.stdout.split()
    assert Path(folder).parent == tmp_path.resolve()
    assert Path(folder).name.startswith("hfposemb-gradio-")
    assert int(mode, 8) == stat.S_IRWXU
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_the_user_chose_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    own_folder()
    assert get_upload_folder() == str(tmp_path)
