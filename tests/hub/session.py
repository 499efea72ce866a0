"""The fake Hub of a test session, and the environment that points every Hub client of this process to it.

huggingface_hub reads its endpoint and folders when it is imported: conftest.py imports this before anything else.
"""

import os
import tempfile
from pathlib import Path

from tests.hub.server import FakeHub

HUB = FakeHub().start()
_HOME = tempfile.TemporaryDirectory(prefix="hfposemb-tests-", ignore_cleanup_errors=True)

for _name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "SPACE_ID"):
    os.environ.pop(_name, None)
os.environ |= {
    "HF_ENDPOINT": HUB.endpoint,
    "HF_HOME": _HOME.name,
    "HFPOSEMB_CACHE": str(Path(_HOME.name) / "hfposemb"),
    "HFPOSEMB_HUB_HOSTS": "localhost",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_XET": "1",  # the fake Hub takes large files as git-lfs does
    "GRADIO_ANALYTICS_ENABLED": "False",
}
