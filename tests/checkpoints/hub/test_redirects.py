"""Where the Hub may redirect to, and what becomes of addresses that are none."""

from __future__ import annotations

import huggingface_hub
import pytest

import hfposemb as hpe
from hfposemb.errors import HubError, InputError
from tests.hub import FakeHub
from tests.support.checkpoints.repository import CONFIG, FILE, REPO

MALFORMED = (
    *("http://[", "http://]", "http://[]", "http://[::1", "http://::1]", "http://[z]/x", "http://[::1]x/", "//["),
    *("https://[huggingface.co]/x", "https://[v1.x]/", "http://[::ffff:999.1.1.1]/", "http://[fe80::1%25eth0]/"),
    *("https://huggingface.co:99999/x", "https://huggingface.co:-1/x", "https://huggingface.co:port/x"),
    *("https://huggingface.co:1e3/", "https://huggingface.co:٣/", "https://huggingface.co:80:80/", "http://:80/"),
    *("https://user:password@huggingface.co/x", "https://huggingface.co@127.0.0.2/x", "https://@huggingface.co/"),
    *("https://x..huggingface.co/x", "https://.huggingface.co/x", f"https://{'a' * 64}.huggingface.co/"),
    *("https://-\u00ad.huggingface.co/", "https://hugging\u200bface.co/", "https://huggingface.co\u2044x/"),
    *("https://hugging face.co/x", "https://huggingface。co/", "https://ℍuggingface.co/", "https://%68f.co/"),
    *("https:///x", "https://", "http:", "https:huggingface.co", "://huggingface.co/", ":", "http://?x", "http://#"),
    *("\\\\huggingface.co\\x", "https:\\\\huggingface.co/", "https://huggingface.co\\@127.0.0.2/"),
    *("javascript:alert(1)", "data:text/plain,x", "file://huggingface.co/etc/passwd", "hf.co", "ws://hf.co/x"),
    "https://huggingface.co/" + "x" * 70_000,
    "https://huggingface.co/\x7f\x01",
    "https://huggingface.co/%zz\x1b[31m",
    "é" * 99,
)


@pytest.mark.parametrize("location", MALFORMED, ids=ascii)
def test_a_redirect_to_no_address_is_one_line(hub: FakeHub, location: str) -> None:
    hub.add(REPO, {"config.json": CONFIG, "model.safetensors": FILE})
    hub.fault("redirect_elsewhere", times=None, host="hub", path="model\\.safetensors", to=location)
    with pytest.raises(HubError) as caught:
        hpe.extract(REPO)
    assert str(caught.value).isprintable()
    assert 20 < len(str(caught.value)) <= 320
    assert not [one for one in hub.requests if one.host == "elsewhere"]
    hub.reset()


@pytest.mark.parametrize("endpoint", ["http://[", "http://localhost:x", "localhost", "", "ftp://localhost/"])
def test_an_endpoint_that_is_no_address_is_one_line(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}")
    with pytest.raises((HubError, InputError), match="HF_ENDPOINT"):
        hpe.extract(REPO)
