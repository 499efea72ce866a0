"""Commands that read, show and check single sources."""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cache import KINDS, Cache, Key, Listed
from ..errors import HfposembError, InputError
from ..models.extraction import extract
from ..tables.embeddings import Embeddings
from ..tables.row_lookup import typed
from ..tables.table import EmbeddingTable
from ..text import display
from .options import (
    SHOWN,
    byte_size,
    chosen_table,
    opened_source,
    parts_of,
    print_json,
    print_result,
    role_of,
    whole_numbers,
)

if TYPE_CHECKING:
    from ..analysis.projection.projecting import Projection
    from ..comparison.row_fingerprints import Fingerprint


def run_info(given: argparse.Namespace) -> None:
    """Print the tables and position encodings of sources, and with options what their positions meet."""
    from ..models.summary import describe

    if len(given.sources) > 1 and (given.revision or given.base):
        raise InputError(f"--revision and --base need exactly one source; got {len(given.sources)}")
    opened = [opened_source(given, source=source) for source in given.sources]
    found = [describe(one) for one in opened]
    texts: list[list[str]] = [[] for _ in opened]
    together = _add_requirements(opened, found, texts) if given.requirements else ""
    if given.resolution:
        _add_resolution(opened, found, texts)
    _add_looked_up(opened, found, texts, given)
    if given.json:
        print_json({"sources": found} if len(found) > 1 else found[0])
        return
    for facts, more in zip(found, texts, strict=True):
        _print_tables(facts)
        print(*more, sep="\n", end="\n" if more else "")
    if together and len(found) > 1:
        print(f"\n{together}")


def _add_requirements(opened: Sequence[Embeddings], facts: list[dict[str, Any]], texts: list[list[str]]) -> str:
    """Add the requirements that positions meet to the facts and texts of sources; return them side by side."""
    from ..analysis.positions.encoding_properties import encoding_requirements, side_by_side

    found = [encoding_requirements(one) for one in opened]
    for one, more, text in zip(found, facts, texts, strict=True):
        more["requirements"] = {**one.to_dict(), "met": one.met}
        text.append(str(one))
    return side_by_side(found)


def _add_resolution(opened: Sequence[Embeddings], facts: list[dict[str, Any]], texts: list[list[str]]) -> None:
    """Add how well waves determine the position to the facts and texts of sources, where there are waves."""
    from ..analysis.positions.resolution import frequency_resolution

    for one, more, text in zip(opened, facts, texts, strict=True):
        more["resolution"] = None
        try:
            waves = frequency_resolution(one.position)
            more["resolution"], said = waves.to_dict(), str(waves)
        except HfposembError as error:
            said = f"note: {error}"
        text += [f"  {line}" for line in said.splitlines()]


def _add_looked_up(
    opened: Sequence[Embeddings], facts: list[dict[str, Any]], texts: list[list[str]], given: argparse.Namespace
) -> None:
    """Add the rows that a text or ids look up to the facts and texts of sources."""
    if given.text is None and given.ids is None:
        if given.table is not None:
            raise InputError("--table of info names the table that --text or --ids look up; give one of them")
        return
    if given.text is not None and given.ids is not None:
        raise InputError("give --text or --ids, not both")
    asked = given.text if given.ids is None else whole_numbers(given.ids, "--ids")
    for one, more, text in zip(opened, facts, texts, strict=True):
        known = [key for key in one.lookups if one.lookup(key).lookup.make is not None]
        keys = [given.table] if given.table is not None else known or list(one.lookups) or ["ngram"]
        found = {key: one.looked_up(asked, key) for key in keys}
        more["looked_up"] = {key: rows.to_dict() for key, rows in found.items()}
        text += [line for rows in found.values() for line in str(rows).splitlines()]


def _print_tables(facts: dict[str, Any]) -> None:
    """Print what a source has, a line for each table, head and position encoding."""
    print(facts["name"])
    for role, table in facts["tables"].items():
        rows, width = table["shape"]
        origin = " · ".join(str(part) for part in (table["tensor"], table["file"]) if part) or "computed"
        offset = f" · {table['row_offset']} leading rows left out" if table["row_offset"] else ""
        more = "".join(f" · {note}" for note in table["notes"]) if "lookup" in table else ""
        print(f"  {role:<18}{rows:>9,} × {width:<6,} {table['stored_dtype']:<5} {origin}{offset}{more}")
        if "lookup" in table:
            print(f"    looked up by: {table['looked_up_by'] or 'not known; ' + (table['unknown'] or '')}")
    for role, head in facts["heads"].items():
        size = "" if head["shape"] is None else "{:>9,} × {:<6,} {:<5} ".format(*head["shape"], head["stored_dtype"])
        bias = " + bias" if head["bias"] else ""
        print(f"  {role:<18}{size}{head['tensor']}{bias} · {'tied' if head['tied'] else 'untied'}: {head['about']}")
    if "token" in facts["tables"] and (reason := facts["absent"].get("head")):
        print(f"  no output head: {reason}")
    for part, position in facts["positions"].items():
        more = ", ".join(f"{name} {value}" for name, value in position["facts"].items())
        print(f"  {part}: {position['kind']}{f' ({more})' if more else ''}")
    if not facts["positions"] and (reason := facts["absent"].get("position")):
        print(f"  positions not found: {reason}")
    for note in facts["notes"]:
        print(f"  note: {note}")
    if facts["commit"]:
        received, total = facts["received_bytes"], facts["file_bytes"]
        asked = f"{facts['requests']} {'request' if facts['requests'] == 1 else 'requests'}"
        print(f"  commit {facts['commit'][:8]}; read {byte_size(received)} of {byte_size(total)}, {asked}")


def run_extract(given: argparse.Namespace) -> None:
    """Write a table to a file."""
    from ..reports.export import write_table

    table = chosen_table(given)
    if given.rows is not None:
        table = table.pick([typed(row) for row in given.rows])
    write_table(table, given.out)
    said = f"wrote {given.out}: {table.name}, {table.shape[0]:,} × {table.shape[1]:,} {table.dtype.name}"
    print_result(said, _written(given.out, table=table.name, shape=table.shape, dtype=table.dtype.name), given)


def _written(path: Path, **facts: object) -> dict[str, Any]:
    """Return the JSON document of a command that wrote a file."""
    return {"file": str(path), "bytes": path.stat().st_size, **facts}


def run_project(given: argparse.Namespace) -> None:
    """Project a table, and print or write the points."""
    from ..analysis.projection.cached_results import cached_projection

    table = chosen_table(given)
    found = cached_projection(
        Cache.default(), table, method=given.method, dims=given.dims, seed=given.seed, progress=given.told
    )
    _ = found.quality  # measured here, since the text has it
    print(found, file=sys.stderr)
    if given.out is not None:
        from ..reports.export import write_projection

        write_projection(found, table, given.out)
        print(f"wrote {given.out}: {len(found.rows):,} points", file=sys.stderr)
        if given.json:
            print_json(_written(given.out, table=table.name, method=found.method, points=len(found.rows)))
    elif given.json:
        points = [{"row": one["row"], "label": table.labels[one["row"]], **one} for one in found.records()]
        facts = {"table": table.name, "method": found.method, "seed": found.seed, "parameters": dict(found.parameters)}
        print_json({**facts, "quality": found.quality, "points": points})
    else:
        _print_points(found, table)


def _print_points(found: Projection, table: EmbeddingTable) -> None:
    """Print the points of a projection as CSV."""
    from ..reports.export import AXES, safe_cell

    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["label", *AXES[: found.dims]])
    for row, point in zip(found.rows, found.coordinates, strict=True):
        lines.writerow([safe_cell(table.labels[int(row)]), *(f"{value:.6g}" for value in point)])


def run_export(given: argparse.Namespace) -> None:
    """Write a table, figure or comparison in the format of the file's ending, or the static page.

    Options and ending are checked before anything is read.
    """
    if given.site is not None:
        _export_site(given)
        return
    if given.endpoint is not None:
        raise InputError("--endpoint applies to --site; set HF_ENDPOINT to read from another Hub")
    if not given.sources:
        raise InputError("nothing to write: name a source, or write the static page with --site DIR")
    _export_file(given)


def _export_site(given: argparse.Namespace) -> None:
    from ..reports.static_site import write_site

    if given.sources:
        raise InputError("--site takes no sources: the page opens those that its reader names; leave them out")
    path = write_site(given.site, endpoint=given.endpoint)
    said = f"wrote {path}: opens from disk or from any host, {byte_size(path.stat().st_size)}"
    print_result(said, _written(path, content="the static page", sources=[]), given)


def _export_file(given: argparse.Namespace) -> None:
    from ..files import check_place
    from ..reports.export import ENDINGS, FIGURE_ENDINGS, check_ending

    whole = given.out.suffix == ".zip"
    check_ending(given.out, (".zip",) if whole else FIGURE_ENDINGS if given.figure else ENDINGS)
    check_place(given.out)
    if given.projection and (whole or given.figure):
        raise InputError("--projection writes a table of coordinates; leave it out for a figure or a report")
    if not whole and not given.figure and len(given.sources) > 1:
        raise InputError(
            f"{given.out.suffix} can hold one table only; got {len(given.sources)} sources; export them one by one"
        )
    from ..comparison.side_by_side import of_parts
    from ..figures.graph_objects import require_plotly

    if whole or given.figure:
        require_plotly("a report" if whole else "a figure")
    opened = [extract(source, allow_full_download=given.allow_full_download) for source in given.sources]
    opened = of_parts(opened, parts_of(given))
    if whole:
        said = _export_comparison(opened, given)
    elif given.figure:
        from ..figures.named_figures import view
        from ..reports.export import write_figure

        write_figure(view(given.figure, *opened), given.out)
        said = f"{given.figure} of {', '.join(given.sources)}"
    else:
        said = _export_table(role_of(opened[0], given.table), given)
    text = f"wrote {given.out}: {said}, {byte_size(given.out.stat().st_size)}"
    print_result(text, _written(given.out, content=said, sources=given.sources), given)


def _export_table(table: EmbeddingTable, given: argparse.Namespace) -> str:
    from ..reports.export import write_projection, write_table

    if given.projection is None:
        write_table(table, given.out)
        return f"{table.name}, {table.shape[0]:,} × {table.shape[1]:,} {table.dtype.name}"
    from ..analysis.projection.cached_results import cached_projection

    found = cached_projection(
        Cache.default(), table, method=given.projection, dims=given.dims, seed=given.seed, progress=given.told
    )
    write_projection(found, table, given.out)
    return f"{table.name} by {found.method}, {len(found.rows):,} points in {found.dims}-D"


def _export_comparison(opened: Sequence[Embeddings], given: argparse.Namespace) -> str:
    from ..comparison.side_by_side import Run, compare
    from ..reports.bundle import write_bundle

    found = compare(*opened, run=Run(cache=Cache.default(), progress=given.told))
    write_bundle(found, opened, given.out, progress=given.told)
    return f"the comparison of {', '.join(given.sources)}"


def run_similarity(given: argparse.Namespace) -> None:
    """Print the similarity of chosen rows."""
    from ..analysis.similarity.row_pairs import pair_similarities

    table = chosen_table(given)
    found = pair_similarities(
        table, [typed(key) for key in given.rows.split(",")], metric=given.metric, centred=given.centred
    )
    print_result(found, {"table": table.name, **found.to_dict()}, given)


def run_neighbours(given: argparse.Namespace) -> None:
    """Print the nearest neighbours of one or more rows."""
    from ..analysis.similarity.nearest_rows import neighbours

    table, several = chosen_table(given), len(given.queries) > 1
    queries = [typed(query) for query in given.queries]
    found = neighbours(table, queries, k=given.k, metric=given.metric, centred=given.centred)
    results = [{"table": table.name, **one.to_dict()} for one in found]
    print_result(found if several else found[0], {"results": results} if several else results[0], given)


def run_card(given: argparse.Namespace) -> None:
    """Print six facts about a source, or write them as a section of a model card or as a picture."""
    from ..reports.card_facts import model_card

    if given.dark and given.out is None:
        raise InputError("--dark is for the picture that --out writes; add --out FILE")
    source, base = _with_base(given)
    found = model_card(source, word=given.word, base=base)
    if given.out is not None:
        found.write(given.out, dark=given.dark)
    said = found.markdown() if given.out is None else f"wrote {given.out}: {byte_size(given.out.stat().st_size)}"
    print_result(said, {"source": found.name, "facts": found.facts}, given)


def _with_base(given: argparse.Namespace) -> tuple[Embeddings, str | bool]:
    """Return a source, an adapter on its base if one is asked for, and the model that it was made from."""
    from ..models.extraction import base_of

    try:
        source = opened_source(given)
    except InputError as error:
        if given.base is None:
            raise
        source = opened_source(argparse.Namespace(**{**vars(given), "base": None}))
        if given.base is True and (source.made_from is None or source.made_from() is None):
            named = f"{source.name} does not name the model that it was made from; give its name: --base SOURCE"
            raise InputError(named) from error
        return source, given.base
    return source, base_of(given.source, revision=given.revision) if given.base is True else given.base or True


def run_mixture(given: argparse.Namespace) -> None:
    """Print a word as a mixture of others, before and after positions are added."""
    from ..composition.word_mixture import mixture

    source = opened_source(given)
    found = mixture(source, typed(given.word), given.k, positions=whole_numbers(given.positions, "--positions"))
    print_result(found, {"table": source.token.name, **found.to_dict()}, given)


def run_verify(given: argparse.Namespace) -> None:
    """Compare what was extracted with the model that transformers loads; raise ``HfposembError`` if they differ."""
    from ..models.verification.verifying import verify

    found = verify(given.source, revision=given.revision)
    print_result(found, found.to_dict(), given)
    if not found.passed:
        wrong = sum(check.verdict in ("different", "missing") for check in found.checks)
        raise HfposembError(
            f"{wrong} of {len(found.checks)} comparisons with transformers failed; please report the model's name"
            if wrong
            else f"nothing in {found.source} could be compared with the transformers model"
        )


def run_odd(given: argparse.Namespace) -> None:
    """Print the odd tokens of a vocabulary."""
    from ..analysis.tokens.undertrained import undertrained_tokens

    ids = whole_numbers(given.unused, "--unused")
    opened = opened_source(given)
    source = opened if given.table is None else role_of(opened, given.table)
    found = undertrained_tokens(source, count=given.count, unused=ids)
    print_result(found, found.to_dict(), given)


def run_changes(given: argparse.Namespace) -> None:
    """Print the rows that differ most between two versions of a table."""
    from ..comparison.changed_rows import row_changes
    from ..models.extraction import base_of

    if (given.after is None) == (given.base is None):
        raise InputError("give two sources, before and after, or one adapter with --base")
    allow = given.allow_full_download
    if given.base is None:
        first = opened_source(given)
        second = extract(given.after, allow_full_download=allow)
    else:
        second = opened_source(given)
        base = base_of(given.source, revision=given.revision) if given.base is True else given.base
        first = extract(base, allow_full_download=allow)
    tokens = any("token" in one.tables for one in (first, second))  # rows of one role in both
    wanted = "tensor" if given.tensor is not None else given.table or ("token" if tokens else "position")
    found = row_changes(role_of(first, wanted), role_of(second, wanted))
    print_result(found.listed(given.count), found.to_dict(given.count), given)


def run_kinship(given: argparse.Namespace) -> None:
    """Print whether models were made from one another, every two of several or one against kept fingerprints."""
    from ..comparison.row_fingerprints import ENDING, read_fingerprint
    from ..comparison.row_kinship import all_pairs, search

    allow, several = given.allow_full_download, len(given.sources) > 1
    if several == (given.against is not None) and (several or given.save is None):
        raise InputError("give two sources or more, or one with --against FOLDER or --save FOLDER")
    opened = [
        read_fingerprint(one) if one.endswith(ENDING) else extract(one, allow_full_download=allow)
        for one in given.sources
    ]
    if given.save is not None:
        _keep_fingerprints(opened, given.save)
    pairs, wrong = search(opened[0], given.against) if given.against is not None else ((), ())
    pairs = all_pairs(opened) if several else pairs
    for line in wrong:
        print(line, file=sys.stderr)
    said = "\n\n".join(map(str, pairs)) or f"wrote {given.save}"
    print_result(said, {"pairs": [one.to_dict() for one in pairs], "unread": list(wrong)}, given)


def _keep_fingerprints(sources: Sequence[Embeddings | Fingerprint], folder: Path) -> None:
    """Write fingerprints into a folder; one that is there is replaced if it is of the same source."""
    from ..comparison.row_fingerprints import ENDING, Fingerprint, fingerprint, read_fingerprint

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made a folder: {error.strerror}; choose another") from error
    places: dict[Path, Embeddings | Fingerprint] = {}
    for one in sources:
        name = re.sub(r"[^A-Za-z0-9._]+", "-", one.name).strip(".-")[:100]
        path = folder / f"{name}{ENDING}"
        kept = places.setdefault(path, one).name
        if path.exists():
            kept = read_fingerprint(path).name
        if kept != display(one.name, width=300):
            raise InputError(f"{path} is of {kept}; keep {one.name} in another folder, or remove that file")
    for path, one in places.items():
        (one if isinstance(one, Fingerprint) else fingerprint(one)).save(path)


def run_merge_preview(given: argparse.Namespace) -> None:
    """Print what averaging the token tables of two models would do."""
    from ..comparison.merged_rows import merge_preview

    found = merge_preview(*(extract(one, allow_full_download=given.allow_full_download) for one in (given.a, given.b)))
    print_result(found, found.to_dict(), given)


def run_transplant(given: argparse.Namespace) -> None:
    """Print how well a donor's tokens can be given rows in a base model, and which would break it; save the rows."""
    from ..comparison.transplants import transplant
    from ..files import check_new
    from ..tables.saved.writing import WRITERS, check_ending, write_table

    if given.save is not None:
        check_ending(given.save, tuple(WRITERS))
        check_new(given.save, force=given.force)
    base, donor = (extract(one, allow_full_download=given.allow_full_download) for one in (given.base, given.donor))
    found = transplant(base, donor, given.method, k=given.k, tokens=given.tokens, progress=given.told)
    saved = None if given.save is None else str(given.save)
    if given.save is not None:
        write_table(found.table, given.save)
    said = f"{found}\nwrote {saved}: {len(found.rows):,} rows" if saved else found
    print_result(said, {**found.to_dict(), "saved": saved}, given)


def run_head(given: argparse.Namespace) -> None:
    """Print the comparison of a token table with the output head."""
    from ..comparison.token_against_head import compare_head

    found = compare_head(opened_source(given), count=given.count, draws=given.draws, progress=given.told)
    print_result(found, found.to_dict(), given)


def run_cache(given: argparse.Namespace) -> None:
    """Print the content of the cache, or clear it."""
    cache = Cache.default()
    if given.clear:
        freed = cache.clear()
        print_result(f"freed {byte_size(freed)}", {"folder": str(cache.folder), "freed": freed}, given)
        return
    entries = cache.entries()
    kinds = {kind: [entry.size for entry in entries if entry.key[0] == kind] for kind in KINDS}
    if given.json:
        facts = {
            "folder": str(cache.folder),
            "limit": cache.limit,
            "kinds": {kind: {"entries": len(sizes), "bytes": sum(sizes)} for kind, sizes in kinds.items()},
            "entries": entries,
        }
        print_json(facts)
        return
    total = sum(entry.size for entry in entries)
    print(f"{cache.folder}: {byte_size(total)} of {byte_size(cache.limit)}")
    for kind, sizes in kinds.items():
        print(f"  {kind:<12}{len(sizes):>6,} {'entry' if len(sizes) == 1 else 'entries':<8}{byte_size(sum(sizes)):>10}")
    largest = sorted(entries, key=lambda entry: -entry.size)
    for title, few in (("largest", largest[:SHOWN]), ("last used", entries[:SHOWN])):
        if few:
            print(f"{title}:")
        for entry in few:
            print(f"  {_entry(entry)}")


def _entry(entry: Listed) -> str:
    """Describe an entry of the cache on one line."""
    text = f"{entry.key[0]} {_about(entry.key)}"
    # Names of tensors and files are untrusted text.
    text = text if text.isprintable() else ascii(text)
    return f"{text} {byte_size(entry.size)}"


def _about(key: Key) -> str:
    match key:
        case ("table", repo, commit, _, tensor, *_):
            return f"{repo}@{commit[:8]} {tensor}"
        case ("header" | "file", repo, commit, file):
            return f"{repo}@{commit[:8]} {file}"
        case ("commit", repo, revision):
            return f"{repo}@{revision}"
        case ("projection", digest, method, dims, seed, *more):
            quality = ", quality" if more[-1:] == ["trust"] else ""
            return f"{method} in {dims}-D of the table {digest[:8]}, seed {seed}{quality}"
        case ("null", "pair", left, right, _, kind, draws, seed, *_):
            return f"of the tables {left[:8]} and {right[:8]}, {kind}, {draws} draws, seed {seed}"
    return " ".join(key[1:])


WRONG, NOT_CHECKED = 1, 2
"""Exit codes of ``check`` if something is wrong, and if a source could not be checked."""


def run_check(given: argparse.Namespace) -> int:
    """Print what is wrong with some sources; return 0 if nothing is, 1 if something is, 2 if one cannot be checked."""
    from ..checks.check_report import document, to_sarif
    from ..checks.running import check
    from ..files import check_place, complete_file

    if given.sarif is not None:
        check_place(given.sarif)
    reports, unread = [], False
    for source in given.sources:
        try:
            reports.append(check(source, full=given.full))
        except HfposembError as error:
            if given.debug:
                raise
            print(f"hfposemb: {error}", file=sys.stderr)
            unread = True
    if given.json:
        print_json(document(reports))
    else:
        for report in reports:
            print(report)
            if report.commit is not None:
                asked = f"{report.requests} {'request' if report.requests == 1 else 'requests'}"
                print(f"  commit {report.commit[:8]}; read {byte_size(report.received)}, {asked}")
    if given.sarif is not None:
        with complete_file(given.sarif) as file:
            file.write(json.dumps(to_sarif(reports), indent=2, ensure_ascii=False).encode() + b"\n")
    return NOT_CHECKED if unread else WRONG if any(not report.passed for report in reports) else 0


def run_rope(given: argparse.Namespace) -> None:
    """Print the report of a source's rotary positions, or with ``--engines`` what inference engines make of them."""
    opened = opened_source(given)
    if given.engines:
        from ..checks.rope_engines import rope_engines

        engines = rope_engines(opened, part=given.part)
        print_result(engines, engines.to_dict(), given)
        return
    from ..checks.rope_report import rope_report

    found = rope_report(opened, part=given.part, factor=given.factor)
    print_result(found, found.to_dict(), given)


def run_vocab(given: argparse.Namespace) -> int:
    """Compare two vocabularies, or measure a text; return 0, 1 if a difference matters, 2 if it cannot be told."""
    try:
        if given.text is not None:
            from ..vocabularies.measured_text import read_text, text_coverage

            text = read_text(given.text)
            found = [text_coverage(source, text) for source in (given.a, given.b) if source is not None]
            print_result("\n\n".join(map(str, found)), {"texts": [one.to_dict() for one in found]}, given)
            return 0
        from ..vocabularies.comparing import vocabulary_difference

        if given.b is None:
            raise InputError("vocab compares two sources; name a second one, or measure a text with --text FILE")
        difference = vocabulary_difference(given.a, given.b)
    except HfposembError as error:
        if given.debug:
            raise
        print(f"hfposemb: {error}", file=sys.stderr)
        return NOT_CHECKED
    print_result(difference, difference.to_dict(), given)
    return difference.exit_code
