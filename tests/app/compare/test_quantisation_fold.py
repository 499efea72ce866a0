"""The fold of quantisation without a browser: when it is offered, what it computes, and what it shows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import hfposemb as hpe
from app.findings.compare import quantisation
from app.findings.compare.quantisation import damage_request, forms_of, quantisation_panels, wanted_of
from app.session.state import Session
from hfposemb.comparison.quantisation import LISTED
from tests.support.app.sessions import computed, open_session
from tests.support.checkpoints import quantised


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A table in full precision, and as MLX stores it."""
    rows = np.random.default_rng(0).standard_normal((200, 64)).astype(np.float32)
    plain, coded = quantised.forms(tmp_path_factory.mktemp("forms"), rows)
    return str(plain), str(coded)


pytestmark = pytest.mark.usefixtures("cache_folder")


def offered(session: Session, chosen: str | None = None) -> list[str] | None:
    found = forms_of(session.open(session.first), chosen)
    return None if found is None else [source.text for source in found]


def test_it_is_offered_for_a_model_in_both_forms_only(forms: tuple[str, str]) -> None:
    plain, coded = forms
    assert offered(open_session(coded, plain)) == [plain, coded], "the original comes first"
    three = open_session("sample:bert", plain, coded)
    assert offered(three) is None
    assert offered(three, "1-2") == [plain, coded]
    assert offered(three, "0-2") is None
    assert offered(open_session(plain)) is None
    assert offered(open_session()) is None
    assert offered(open_session(plain, "./nowhere")) is None
    assert offered(open_session("sample:bert", "sample:gpt2")) is None


def test_it_shows_what_the_function_returns(forms: tuple[str, str]) -> None:
    session = open_session(*reversed(forms))
    pair = forms_of(session.open(session.first), None)
    (waiting,) = quantisation_panels(session, pair).panels
    assert (waiting.drawings, waiting.actions) == ((), ())
    (stopped,) = quantisation_panels(session, pair, stopped=True).panels
    assert stopped.actions == (quantisation.AGAIN,)
    wanted = wanted_of(session, pair)
    assert wanted == [list(forms)]
    computed(session, wanted, partial(damage_request, session))
    assert wanted_of(session, pair) == []
    (panel,) = quantisation_panels(session, pair).panels
    found = hpe.compare_quantised(*map(hpe.extract, forms), count=LISTED)
    errors, kept = panel.lists
    assert [(row.label, row.value) for row in errors.rows] == [(move.label, move.distance) for move in found.worst]
    assert [row.value for row in kept.rows] == [move.kept for move in found.worst]
    error = found.measures["relative error"].observed
    assert f"changes a token by {100 * error:.1f}".replace(" 0.", " .") in panel.title
    assert "4 bits" in panel.source[1]
    line = next(trace for trace in panel.drawings[0].figure.data if trace.name == "quantised")
    assert line.y[0] == found.errors.max()
    assert quantisation_panels(session, None).panels == ()
