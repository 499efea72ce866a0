"""The file of the static page: one page, always the same, that can reach the Hub alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from hfposemb.cli.main import main
from hfposemb.errors import InputError
from hfposemb.reports.static_site import HUB, site_page, write_site


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> str:
    """The page as it is written where no other Hub is set."""
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.delenv("HFPOSEMB_HUB_HOSTS", raising=False)
    return site_page()


def policy(page: str) -> dict[str, list[str]]:
    """Return the parts of the Content-Security-Policy by name."""
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    return {name: rest for name, *rest in (part.split() for part in found[1].split(";"))}


def test_requests_go_to_the_hub_alone_and_nothing_is_loaded_from_elsewhere(page: str) -> None:
    found = policy(page)
    assert found["default-src"] == ["'none'"]
    domains = [f"https://{name}" for host in ("huggingface.co", "hf.co") for name in (host, f"*.{host}")]
    assert found["connect-src"] == ["blob:", HUB, *domains]
    assert found["worker-src"] == ["blob:"]
    scripts = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in found["script-src"]
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)=["']?([^"' >]+)""", markup) == []
    assert "@import" not in page.partition("</style>")[0]


def test_the_page_is_always_the_same_and_has_the_rules_of_the_package(page: str) -> None:
    assert page == site_page()
    found = re.search(r'id="site">(.*?)</script>', page)
    rules = json.loads(found[1])["rules"]
    assert rules["limits"]["header_bytes"] == 25_000_000
    assert any("roberta" in family["model_types"] and family["counts_padding"] for family in rules["families"])


def test_a_hub_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFPOSEMB_HUB_HOSTS", "files.hub.example, x;y")
    found = policy(site_page(endpoint="https://hub.example/"))
    assert found["connect-src"][:2] == ["blob:", "https://hub.example"]
    assert found["connect-src"][-1] == "https://files.hub.example:*"
    assert "x;y" not in site_page(endpoint="https://hub.example")


@pytest.mark.parametrize(
    "address", ["hub.example", "ftp://x", "https://a b", 'https://x"onload', "https://x/path", "javascript:x"]
)
def test_an_endpoint_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="is not the address of a Hub"):
        site_page(endpoint=address)


def test_the_folder_is_made_and_the_page_replaced(tmp_path: Path) -> None:
    path = write_site(tmp_path / "new")
    path.write_text("old")
    assert write_site(tmp_path / "new").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [one.name for one in path.parent.iterdir()] == ["index.html"]
    (tmp_path / "file").write_text("")
    for place in ("file", "no/parent"):
        with pytest.raises(InputError, match="choose another one"):
            write_site(tmp_path / place)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--site", "DIR"], "wrote DIR/index.html: opens from disk or from any host"),
        (["sample:bert", "--site", "DIR"], "--site takes no sources"),
        (["--out", "x.csv"], "name a source"),
        (["sample:bert", "--out", "x.csv", "--endpoint", HUB], "--endpoint applies to --site"),
        (["--site", "DIR", "--endpoint", "x"], "is not the address of a Hub"),
    ],
)
def test_the_command(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    place = str(tmp_path / "site")
    code = main(["export", *(place if one == "DIR" else one for one in arguments)])
    printed = capsys.readouterr()
    assert said.replace("DIR", place) in printed.out + printed.err
    assert code == (0 if printed.out else 1)
    assert (tmp_path / "site").exists() == bool(printed.out)
