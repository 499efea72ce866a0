"""What is shown of real models, and that an archive of them is read."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pandas as pd
from hfposemb.app.findings.start import model_input
from hfposemb.app.session.opened import Opened

import hfposemb as hpe
from hfposemb.reports.bundle import write_bundle

# --- Start ------------------------------------------------------------------------------------------------------------


def test_a_word_at_the_beginning_is_another_token_than_after_a_space(real: dict[str, str]) -> None:
    source = Opened(real["gpt2"], "gpt2", "", "", hpe.extract(real["gpt2"]))
    panel = model_input.input_panel([source], model_input.SENTENCE)
    assert "The first “the” has no space before it, so it is not the same token as the second" in panel.message
    repeated = model_input.input_panel([source], model_input.REPEATED)
    assert "Both “the” have the same token vector (cosine 1.00)" in repeated.message
    assert "inputs differ (cosine 1.00)" not in repeated.message


# --- the report -------------------------------------------------------------------------------------------------------


def test_every_file_of_the_archive_is_read(real: dict[str, str], tmp_path: Path) -> None:
    sources = [hpe.extract(real[name]) for name in ("minilm", "gpt2")]
    write_bundle(hpe.compare(*sources, draws=0, pairs=False), sources, tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as opened:
        assert opened.testzip() is None
        assert opened.getinfo("report.html").file_size < 30e6
        for name in opened.namelist():
            if name.endswith(".json"):
                assert json.loads(opened.read(name))
            if name.endswith(".csv"):
                frame = pd.read_csv(io.BytesIO(opened.read(name)))
                assert len(frame.columns) > 1
                assert len(frame) or name == "pairs.csv"  # no pairs were compared
