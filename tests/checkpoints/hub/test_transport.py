"""Which HTTP library's errors are caught: the one that the installed huggingface_hub is built on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import HfHubHTTPError

from hfposemb.checkpoints.hub.http_answers import http_errors


def test_errors_are_those_of_the_sessions() -> None:
    errors = http_errors()
    assert issubclass(HfHubHTTPError, errors.any)
    with pytest.raises(errors.unreachable):
        huggingface_hub.get_session().get("http://127.0.0.1:9")
    with pytest.raises(errors.bad_address):
        huggingface_hub.get_session().get("file:///nothing")
    assert all(issubclass(error, errors.request) for error in errors.unreachable)
    assert issubclass(errors.timeout, errors.request)


OTHER = """
import sys
import httpx, httpx2
from huggingface_hub import errors
base = next(one for one in errors.HfHubHTTPError.__mro__ if one.__module__ in ("httpx", "httpx2"))
other = {"httpx": httpx2, "httpx2": httpx}[base.__module__]
errors.HfHubHTTPError = type("HfHubHTTPError", (other.HTTPError, OSError), {})
from hfposemb.checkpoints.hub.http_answers import http_errors
assert other.ConnectError in http_errors().unreachable
"""


def test_both_libraries_have_what_is_named() -> None:
    """The whole is tried with either version of huggingface_hub by ``tests/versions.py``."""
    subprocess.run([sys.executable, "-c", OTHER], check=True)


def test_too_old_a_huggingface_hub_is_one_line(tmp_path: Path) -> None:
    package = tmp_path / "huggingface_hub"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '0.36.2'\n")
    (package / "errors.py").write_text("class HfHubHTTPError(OSError): ...\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "from hfposemb.checkpoints.hub.http_answers import http_errors\nhttp_errors()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "hfposemb.errors.HubError: huggingface_hub 0.36.2 is installed, and 1.16 or later is needed: "
        "pip install 'huggingface_hub>=1.16'"
    )
