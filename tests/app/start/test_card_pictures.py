"""The cards below the check of the files: the library's own, and nothing of a stranger's name in their HTML."""

import re
from base64 import b64decode
from dataclasses import replace

from hfposemb.app.findings.start.file_checks import card_sections
from hfposemb.app.session.state import Session

import hfposemb as hpe


def test_a_card_is_the_librarys_in_both_shades(session: Session) -> None:
    opened = session.open(["sample:gpt2", "sinusoidal:64x16"])
    written = card_sections(opened, session)
    card = hpe.model_card(hpe.extract("sample:gpt2"))
    assert "tied to the token table" in written
    pictures = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', written)
    assert b64decode(pictures[0]).decode() == card.svg()
    assert b64decode(pictures[1]).decode() == card.svg(dark=True)
    assert len(pictures) == 4
    assert 'width="1200" height="630"' in written
    assert 'download="demo-gpt-2-dark.svg"' in written


def test_a_card_is_compared_with_the_open_model_that_it_was_made_from(session: Session) -> None:
    sources = session.open(["sample:gpt2", "sample:bert"])
    first, second = (one.embeddings for one in sources)
    made = [replace(sources[0], embeddings=replace(first, made_from=lambda: second.name)), sources[1]]
    written = card_sections(made, session)
    assert written.count("| Origin | cannot tell whether it comes from sample:bert: ") == 1
    assert written.count("| Vocabulary | Two vocabularies: ") == 1
    assert "--base sample:bert" in written
    assert "Origin" not in card_sections(made[:1], session)


def test_a_name_stays_text(session: Session) -> None:
    (source,) = session.open(["sample:gpt2"])
    written = card_sections([replace(source, name='"><img src=x onerror=alert(1)>')], session)
    assert "<img src=x" not in written
    assert 'download="img-src-x-onerror-alert-1-light.svg"' in written


def test_tables_that_are_not_read_are_not_fetched_for_a_card(session: Session, hub: object) -> None:
    (source,) = session.open(["sample:gpt2"])
    assert card_sections([replace(source, text="owner/never-read")], session) == ""
