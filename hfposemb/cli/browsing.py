"""The command that shows a survey: a page to browse, and a dataset to publish."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from ..errors import InputError
from .options import byte_size, print_json

PAGE = "_atlas.html"
"""Name of the page in the folder of a survey; readers of partitioned parquet skip names with this prefix."""


def run_atlas(given: argparse.Namespace) -> None:
    """Write the page of a survey, and with ``--dataset`` a dataset for the Hub."""
    from ..files import complete_file
    from ..reports.atlas_page import APP, atlas_page
    from ..reports.report import check_path
    from ..surveys.survey_dataset import write_dataset
    from ..surveys.survey_folder import rows_of

    out = given.out or _place(given.survey)
    check_path(out)
    rows = rows_of(given.survey).sort_values("source", kind="stable", key=lambda names: names.str.lower())
    name = Path(given.survey).resolve().name or given.survey
    page = atlas_page(rows, title=given.title or f"Atlas of {name}", app=given.app or APP)
    with complete_file(out) as file:
        file.write(page.encode())
    failed = rows[rows["metric"].isna()].drop_duplicates("source")
    facts = {
        "page": str(out),
        "bytes": out.stat().st_size,
        "models": rows[rows["metric"].notna()]["source"].nunique(),
        "failed": dict(zip(failed["source"], failed["error"], strict=True)),
        "dataset": None,
    }
    if given.dataset is not None:
        facts["dataset"] = str(write_dataset(rows, given.dataset, **({"name": given.title} if given.title else {})))
    if given.json:
        print_json(facts)
    else:
        print(f"wrote {out}: {facts['models']:,} models, {byte_size(out.stat().st_size)}, opens in any browser")
        if facts["dataset"] is not None:
            where = facts["dataset"]
            print(f"wrote {where}: upload it with 'hf upload OWNER/NAME {where} --repo-type dataset'")
    if given.open:
        webbrowser.open(out.resolve().as_uri())


def _place(survey: str) -> Path:
    """Return where the page goes by default: into the folder, or next to a file of rows."""
    if "://" in survey:
        raise InputError(f"{survey} is not a folder of this machine; give --out FILE.html for the page")
    path = Path(survey)
    return path / PAGE if path.is_dir() else path.with_suffix(".html")
