"""The app without a browser: what is shared, what is computed once, what can be stopped, and what each panel says."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import gradio as gr
import numpy as np
import pytest
from hfposemb.app.components.plot import Panel, PanelRow
from hfposemb.app.findings import chosen_word
from hfposemb.app.findings.tokens import token_map, token_neighbours, token_search, word_pairs
from hfposemb.app.jobs.fetching import Fetch
from hfposemb.app.jobs.queue import LINE
from hfposemb.app.session.background_jobs import BackgroundJob
from hfposemb.app.session.kept import Kept, size_of
from hfposemb.app.session.library import Library
from hfposemb.app.session.opened import Opened, problems
from hfposemb.app.session.state import Session

import hfposemb as hpe
from hfposemb import app
from hfposemb.errors import HfposembError, SourceError
from hfposemb.tables.embeddings import LazyMapping
from hfposemb.text import number
from tests.support.app.models import HOSTILE, WORDS, anisotropic, bert_and_gpt2, checkpoint
from tests.support.app.sessions import computed, open_session, rows_of
from tests.support.processes.waiting import unused_port

# --- weight ----------------------------------------------------------------------------------------------------------


def test_import_loads_nothing_heavy_and_turns_analytics_off(tmp_path: Path) -> None:
    """In a fresh interpreter."""
    code = (
        "import os, sys; os.environ.pop('GRADIO_ANALYTICS_ENABLED', 0); os.environ.pop('HF_HUB_DISABLE_TELEMETRY', 0);"
        "import hfposemb.app, hfposemb.app.jobs.children; print(os.environ['GRADIO_ANALYTICS_ENABLED'],"
        "os.environ['HF_HUB_DISABLE_TELEMETRY'], *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    analytics, telemetry, *loaded = done.stdout.split()
    assert (analytics, telemetry) == ("False", "1")
    assert not {"gradio", "torch", "transformers", "umap", "sklearn", "plotly", "huggingface_hub"} & set(loaded)


def test_tabs_have_nothing_between_them() -> None:
    """Gradio's page takes whatever is in the ``gr.Tabs`` for a tab, and would show others twice."""
    blocks = app.build()
    tabs = next(block for block in blocks.blocks.values() if isinstance(block, gr.Tabs))
    assert {type(child) for child in tabs.children} == {gr.Tab}


# --- kept and shared -------------------------------------------------------------------------------------------------


def test_kept_is_bounded_by_bytes_and_entries_and_drops_the_longest_unused() -> None:
    kept = Kept(4_000)
    for name in "abc":
        kept.make(name, lambda: np.zeros(150))
    assert kept.get("a") is not None  # used again, so "b" is the oldest
    kept.make("d", lambda: np.zeros(150))
    assert kept.nbytes <= 4_000
    assert kept.get("b") is None
    assert kept.get("a") is not None
    assert kept.get("d") is not None
    few = Kept(10**9, entries=3)
    for key in range(10):
        few.make(key, lambda: 1)
    assert len(few) == 3


def test_what_two_ask_for_is_made_once() -> None:
    kept, made = Kept(10**6), []

    def make() -> str:
        time.sleep(0.2)
        made.append(1)
        return "value"

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: kept.make("key", make), range(8))) == ["value"] * 8
    assert len(made) == 1


def test_error_reaches_all_who_wait_and_is_not_kept() -> None:
    kept = Kept(10**6)

    def fail() -> None:
        time.sleep(0.1)
        raise SourceError("no such source; write another")

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(kept.make, "key", fail) for _ in range(4)]
    assert [str(one.exception()) for one in asked] == ["no such source; write another"] * 4
    assert kept.make("key", lambda: "now") == "now"


def test_a_source_whose_table_fails_leaves_nobody_waiting() -> None:
    kept = Kept(10**6)

    def fail() -> None:
        raise SourceError("a table cannot be read; download the file again")

    def make() -> hpe.Embeddings:
        time.sleep(0.2)
        return hpe.Embeddings("broken", LazyMapping({"token": fail}), {})

    asked: list[Future[hpe.Embeddings]] = [Future() for _ in range(4)]

    def ask(told: Future[hpe.Embeddings]) -> None:
        try:
            told.set_result(kept.make("key", make))
        except SourceError as error:
            told.set_exception(error)

    for one in asked:
        threading.Thread(target=ask, args=(one,), daemon=True).start()
    assert {str(one.exception(timeout=20)) for one in asked} == {"a table cannot be read; download the file again"}
    assert kept.make("key", lambda: "now") == "now"


def test_size_counts_tables_before_they_are_read_labels_and_configuration(tmp_path: Path) -> None:
    assert size_of(hpe.extract("random:1000x64")) >= 1000 * 64 * 4
    assert size_of(hpe.project(hpe.extract("random:50x4").token)) >= 50 * 2 * 4
    words = [f"{row:0100}" for row in range(5_000)]
    path = checkpoint(tmp_path / "narrow", words, np.zeros((len(words), 2), np.float32))
    library, need = Library(), ("token",)
    library.fetch(path, need)[1](Fetch("narrow"))
    assert 1_000_000 < library.sources.nbytes < 3_000_000, "each label, as text and as piece, and hardly anything else"
    assert size_of(hpe.extract("sample:bert")) < 3_000_000


def test_searches_are_kept_by_their_size_and_keep_no_labels() -> None:
    table = hpe.from_arrays(token=np.zeros((3_000, 2)), labels=[f"w{row}" for row in range(3_000)]).token
    labels = weakref.ref(table.labels)
    before = token_search.KEPT.nbytes
    assert len(token_search.matched(table, "w", regex=False)) == 3_000
    assert token_search.KEPT.nbytes - before > 3_000 * 50
    del table
    gc.collect()
    assert labels() is None


def test_source_is_opened_once_under_all_its_names() -> None:
    library = Library()
    assert library.open("sinusoidal:8x4") is library.open(" sinusoidal:8x4 ")


def test_sources_in_turn_stay_within_the_budget() -> None:
    library, held = Library(source_bytes=60_000, result_bytes=60_000), []
    for row in range(12):
        source = library.open(f"random:{100 + row}x32")
        table = source.position.table
        library.result(table, ("cosines",), lambda table=table: hpe.similarity(table))
        held.append(weakref.ref(source))
        assert library.sources.nbytes <= 60_000
        assert library.results.nbytes <= max(60_000, 8 * table.shape[0] ** 2), "the last one is kept, however large"
    del source, table
    gc.collect()
    assert sum(one() is not None for one in held) == len(library.sources) < 6


@pytest.mark.parametrize("text", ["gpt2", "nonsense:1x1", "sinusoidal:0x0", "./absent", "x" * 5000, "a\nb"])
def test_source_that_fails_leaves_the_others(text: str) -> None:
    first, second = open_session().open((text, "sinusoidal:8x4"))
    assert first.embeddings is None
    assert first.error
    assert "\n" not in first.error
    assert second.embeddings is not None
    assert "<script" not in problems((first, second))


def test_errors_are_written_as_text() -> None:
    shown = Opened("x", "<b>x</b>", "#000000", "solid", error="<script>alert(1)</script>")
    assert "<script>" not in problems([shown])
    assert "<b>" not in problems([shown])


# --- the page --------------------------------------------------------------------------------------------------------

TWO = ("random:64x16", "sinusoidal:64x16")


def keys_of(row: PanelRow) -> set[str]:
    """Return the keys of the panels that a row is sent with."""
    shown = json.loads(row.value["row"]) if row.value else None
    return {panel["key"] for panel in shown["panels"]} if shown else set()


def test_page_stands_in_a_tabbed_interface() -> None:
    tabbed = gr.TabbedInterface([app.build(sources=TWO), app.build(sources=TWO)], ["one", "two"])
    scopes = {row.scope for row in rows_of(tabbed) if any(key.startswith("shape ") for key in keys_of(row))}
    assert len(scopes) == 2, "a hover in one does not reach the other"


def test_first_paint_needs_no_event() -> None:
    blocks = app.build(sources=TWO)
    events = [target[1] for dependency in blocks.config["dependencies"] for target in dependency["targets"]]
    assert "load" not in events
    keys = {key for row in rows_of(blocks) for key in keys_of(row)}
    assert {f"shape {text}" for text in TWO} <= keys
    assert not keys & {"map", "neighbours", *TWO}, "other tabs are drawn when they are opened"


def test_launch_sets_what_only_a_launch_may_set() -> None:
    port = unused_port()
    blocks = app.launch(TWO, port=port, public=True, warm=False, prevent_thread_lock=True, quiet=True)
    try:
        config = json.loads(urlopen(f"http://127.0.0.1:{port}/config", timeout=60).read())
        page = urlopen(f"http://127.0.0.1:{port}/", timeout=60).read().decode()
        with pytest.raises(HfposembError, match="choose another port"):
            app.launch(TWO, port=port, warm=False, prevent_thread_lock=True, quiet=True)
    finally:
        blocks.close(verbose=False)
    assert config["footer_links"] == ["api"]
    assert config["show_error"] is False
    assert config["analytics_enabled"] is False
    assert not config.get("pwa")
    assert not config.get("run_history")
    assert blocks.max_file_size == 2**20 or blocks.max_file_size == 10**6
    assert blocks.enable_monitoring is False
    assert "hfposemb-header" in (config.get("css") or page)
    assert not re.findall(r"https?://fonts\.", page)


def test_foot_states_where_every_table_came_from(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "bert", WORDS)
    foot = app.provenance(open_session().open((source, "sinusoidal:64x16", "gpt2")))
    assert "embeddings.word_embeddings.weight 13 × 16 F32" in foot
    assert "computed" in foot
    assert "gpt2" not in foot


# --- Tokens ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """A BERT and a GPT-2 with the same words."""
    return bert_and_gpt2(tmp_path, [*WORDS, *(f"word{number}" for number in range(40))], noise=0.3)


def test_neighbours_are_exact_in_every_source(pair: tuple[str, str]) -> None:
    session = open_session(*pair)
    opened = session.open(pair)
    panel = token_neighbours.word_panels(session, opened, chosen_word.Word("king"))[0]
    keys = []
    for source, shown in zip(opened, panel.lists, strict=True):
        table = source.embeddings.token  # type: ignore[union-attr]
        wanted = hpe.neighbours(table, chosen_word.row_of(table, chosen_word.Word("king"), source.text), k=12)  # type: ignore[arg-type]
        assert [row.id for row in shown.rows] == wanted.rows.tolist()
        assert [row.value for row in shown.rows] == wanted.values.tolist()
        keys.append({row.label.casefold().removeprefix("##") for row in shown.rows})
    shared = keys[0] & keys[1]
    assert f"{len(shared)} of the 12 nearest" in panel.title
    for shown in panel.lists:
        assert all(row.shared == (row.label.casefold().removeprefix("##") in shared) for row in shown.rows)


def test_a_table_that_is_anisotropic_says_so_and_is_centred(tmp_path: Path) -> None:
    source = anisotropic(tmp_path / "gpt")
    session = open_session(source)
    opened = session.open((source,))
    table = opened[0].embeddings.token  # type: ignore[union-attr]
    (plain,) = token_neighbours.word_panels(session, opened, chosen_word.Word("king"))
    common = number(hpe.neighbours(table, "king").anisotropy or 0, digits=2)
    assert f"Two random tokens have a mean cosine of {common} in gpt, so a high cosine means little" in plain.subtitle
    assert "“king” refers to the token “ king” (word start); the piece “king” is row" in plain.foot
    (moved,) = token_neighbours.word_panels(session, opened, chosen_word.Word("king"), centred=True)
    wanted = hpe.neighbours(table, "king", k=12, centred=True)
    assert [row.id for row in moved.lists[0].rows] == wanted.rows.tolist()
    assert [row.value for row in moved.lists[0].rows] == wanted.values.tolist()
    assert "mean cosine" not in moved.subtitle
    assert "(centred cosine " in moved.title
    assert "centred=True" in moved.recipe.python
    assert moved.recipe.command.endswith("--centred")
    (matrix,) = word_pairs.pair_panels(session, opened, "king, queen", centred=True).panels
    assert "centred=True" in matrix.recipe.python
    assert f"mean cosine of {common}" in word_pairs.pair_panels(session, opened, "king, queen").panels[0].foot
    assert (
        token_neighbours.spread_panels(session, opened[0], chosen_word.Word("king"), centred=True)[0].title.count(
            "centred"
        )
        == 1
    )


@pytest.mark.parametrize(
    ("text", "bert", "gpt"),
    [("king", "king", " king"), (" king", "king", " king"), ("King", "king", " king"), ("##ing", "##ing", None)],
)
def test_word_is_found_by_either_spelling(pair: tuple[str, str], text: str, bert: str, gpt: str | None) -> None:
    one, two = (source.embeddings.token for source in open_session().open(pair))  # type: ignore[union-attr]
    assert one.labels[chosen_word.row_of(one, chosen_word.Word(text), "")] == bert
    row = chosen_word.row_of(two, chosen_word.Word(text), "")
    assert (None if row is None else two.labels[row]) in (gpt, "##ing")


def test_number_names_a_token_and_else_an_id(pair: tuple[str, str]) -> None:
    table = open_session().open(pair)[0].embeddings.token  # type: ignore[union-attr]
    assert chosen_word.row_of(table, chosen_word.Word("7"), "") == 12, "a token called 7 comes before row 7"
    assert chosen_word.row_of(table, chosen_word.Word("5"), "") == 5
    assert chosen_word.row_of(table, chosen_word.Word("99999999999"), "") is None


def test_unknown_word_names_the_nearest_spelling(tmp_path: Path, pair: tuple[str, str]) -> None:
    other = checkpoint(tmp_path / "other", ("alpha", "beta", "quean", "gamma"))
    session = open_session()
    panel = token_neighbours.word_panels(
        session, session.open((pair[0], other, "sinusoidal:8x4")), chosen_word.Word("queen")
    )[0]
    assert len(panel.lists) == 1
    assert "other has no token “queen”; closest spelling: “quean”" in panel.foot
    assert "Sinusoid is a formula for positions" in panel.foot
    (absent,) = token_neighbours.word_panels(session, session.open((other,)), chosen_word.Word("king"))
    pairs = word_pairs.pair_panels(session, session.open((other,)), "king, quean").panels[0]
    for said in (absent.message, pairs.message.removeprefix("other has no token “king”. ")):
        assert said
        assert "king" not in said, "the word that is not there is not what to try instead"


def test_page_without_tokens_says_why() -> None:
    panel = asked(open_session(), "sinusoidal:32x8")
    assert panel.title == "None of the sources has tokens"
    assert "Sinusoid is a formula for positions, so it has no vocabulary." in panel.message


def asked(session: Session, source: str) -> Panel:
    """Return the panel of the map as the tab first asks for it."""
    word = chosen_word.Word("king")
    controls = token_map.MapControls(None, "PCA", "2-D", "Class", word)
    return token_map.asked_map(session, session.open((source,)), controls)[1][0]


def draw(session: Session, source: str, *, method: str = "pca", color: str = "Class", word: str = "king") -> Panel:
    """Return the panel of a source's map."""
    opened = session.open((source,))[0]
    projection = session.projection(opened.embeddings.token, method, 2)  # type: ignore[union-attr]
    return token_map.map_panels(session, opened, projection, color, chosen_word.Word(word))[0]


@pytest.mark.parametrize("color", ["Class", "Id", "Norm"])
def test_map_shows_every_token(pair: tuple[str, str], color: str) -> None:
    panel = draw(open_session(), pair[0], color=color)
    linked = [trace for trace in panel.drawings[0].figure.data if isinstance(trace.meta, dict) and "link" in trace.meta]
    first_axes = [trace for trace in linked if trace.xaxis in (None, "x")]
    assert sum(len(trace.x) for trace in first_axes) == 53
    assert "All 53 tokens" in panel.subtitle
    assert bool(panel.legend) == (color == "Class")
    assert bool(panel.scale_bars) == (color != "Class")
    assert len(panel.foot) <= 60
    assert panel.tools
    assert all(item.pick for item in panel.legend)


def test_rows_with_nan_are_left_out_and_counted(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 16)).astype(np.float32)
    vectors[4, 3] = np.nan
    source, session = checkpoint(tmp_path / "nan", WORDS, vectors), open_session()
    panel = draw(session, source, word="king")
    assert "12 of 13 tokens" in panel.subtitle
    assert "1 rows left out" in panel.foot or "1 row left out" in panel.foot
    near = token_neighbours.word_panels(session, session.open((source,)), chosen_word.Word("king"))[0]
    assert "not finite" in near.foot
    assert "nan" not in near.title.lower().replace(source, "")


def test_table_of_one_row_is_drawn_or_explained(tmp_path: Path) -> None:
    source, session = checkpoint(tmp_path / "one", ("alone",)), open_session()
    opened = session.open((source,))
    assert "one cannot be drawn" in asked(session, source).title
    assert "needs at least 2" in asked(session, source).message
    assert "alone" in token_neighbours.word_panels(session, opened, chosen_word.Word("alone"))[0].title
    token_neighbours.spread_panels(session, opened[0], chosen_word.Word("alone"))
    assert "too few" in word_pairs.pair_panels(session, opened, "alone, king").panels[0].title


def test_umap_is_only_drawn_once_computed() -> None:
    session = open_session()
    table = session.open(("random:60x8",))[0].embeddings.token  # type: ignore[union-attr]
    assert session.projection(table, "umap", 2) is None
    wanted = [["random:60x8", "token", 2]]
    assert str(computed(session, wanted, session.jobs.layout)[0]) == "starting"
    assert session.projection(table, "umap", 2) is not None
    assert not computed(session, wanted, session.jobs.layout), "it is computed once"
    assert not len(LINE)
    failed = {"ok": False, "wanted": wanted}
    assert BackgroundJob.failed(failed, wanted)
    for done, asked_for in ((failed, [["random:60x8", "token", 3]]), (failed, []), (failed | {"ok": True}, wanted)):
        assert not BackgroundJob.failed(done, asked_for)
    assert not BackgroundJob.failed({}, wanted)


def test_search_by_text_id_and_pattern(pair: tuple[str, str]) -> None:
    opened = open_session().open(pair)
    panel = token_search.match_panels(opened, "ing", False)[0]
    assert [row.label for row in panel.lists[0].rows] == ["king", "##ing"]
    assert panel.title.startswith("2 of bert and 2 of gpt contain")
    assert [row.id for row in token_search.match_panels(opened, "5", False)[0].lists[0].rows][:1] == [5]
    by_pattern = token_search.match_panels(opened, "^.?(king|queen)$", True)[0]
    assert [row.label for row in by_pattern.lists[0].rows] == ["king", "queen"]
    assert "not a valid regular expression" in token_search.match_panels(opened, "(", True)[0].title


def test_pairs_say_how_rare_they_are(pair: tuple[str, str]) -> None:
    session = open_session()
    panels = word_pairs.pair_panels(session, session.open(pair), "king, queen, nowhere").panels
    assert len(panels) == 2
    for panel in panels:
        assert re.search(r"king and queen are more similar than [\d.]+\u00a0% of random pairs", panel.title)
        assert "no token “nowhere”" in panel.foot
        assert re.search(r"queen is king’s (\S+ )?nearest of [\d,]+, king is queen’s", panel.drawings[0].caption)


def test_words_beyond_the_most_are_named(pair: tuple[str, str]) -> None:
    session = open_session()
    opened, words = session.open(pair), [*WORDS[:12], "far", "near"]
    assert word_pairs.pair_panels(session, opened, ", ".join(words[:12])).subheading == ""
    said = word_pairs.pair_panels(session, opened, ", ".join(words)).subheading
    assert said == "Showing the first 12 words; 2 more were left out: far, near."
    many = word_pairs.pair_panels(session, opened, ", ".join([*words, *"abcdefgh"])).subheading
    assert many.endswith("10 more were left out: far, near, a, b, c, d, … and 4 others.")


def test_hostile_tokens_are_short_text_everywhere(tmp_path: Path) -> None:
    source, session = checkpoint(tmp_path / "hostile", (*HOSTILE, *WORDS)), open_session()
    opened = session.open((source,))
    shown = [*token_search.match_panels(opened, "a", False), draw(session, source, word=HOSTILE[0])]
    for row, text in enumerate(HOSTILE):
        word = chosen_word.Word(text, source, row)
        shown += [
            *token_neighbours.word_panels(session, opened, word),
            *token_neighbours.spread_panels(session, opened[0], word),
        ]
    shown += word_pairs.pair_panels(session, opened, ",".join(str(row) for row in range(len(HOSTILE)))).panels
    row = PanelRow((), scope="x", render=False)
    sent = json.dumps(row.postprocess(tuple(shown)))
    assert "x" * 1000 not in sent
    assert "\\u202e" not in sent
    assert "\\u0000" not in sent


def test_strangers_have_no_huge_closed_forms_computed() -> None:
    library = Library()
    for large in ("random:1000000x500", "rotary:1000000x64"):
        with pytest.raises(SourceError, match="at most 128 MB on this public page"):
            library.open(large, public=True)
    assert library.open("alibi:2048x12", public=True).position.kind == "alibi"
    assert library.open("random:1000000x500").tables["position"].shape == (1_000_000, 500)
    assert library.open("sinusoidal:1024x768", public=True).tables["position"].shape == (1024, 768)


def test_handlers_open_what_the_tab_is_drawn_with() -> None:
    session = open_session("sample:bert").at("positions", ("position",))
    texts = ("sinusoidal:8x4", "not a source")
    due = session.drawn_with("", texts)
    assert session.shown(due) == session.open(texts)[:1], "one that cannot be opened is named above the tabs"
    assert session.shown([]) == ()
