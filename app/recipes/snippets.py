"""What reproduces a panel: a Python snippet and, where there is one, a command line, and how the view is cited.

A snippet runs as it is and ends in ``shown``, the numbers that the panel draws or lists, by source or by what they are.
It names every source as the page does, those of the Hub at the commit that was read, and uses public names only. All
texts of a visitor stand in it as literals, so that nothing they hold is ever run.
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

import hfposemb as hpe
from hfposemb.errors import HfposembError
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import HubSource, LocalSource

from ..server.limits import TRAINING_DRAWS

if TYPE_CHECKING:
    from hfposemb.composition.added_positions import Adding
    from hfposemb.tables.table import EmbeddingTable

    from ..session.state import Opened
    from ..tabs.positions import Positions

HASHED = 2**26
"""Numbers of a table whose hash is computed for a citation alone; that of a larger one is told where it is known."""

_SPECIAL = str.maketrans(
    {
        **{character: f"\\{character}" for character in "{}%&$#_"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    }
)
"""What BibTeX and LaTeX read as more than text."""


@dataclass(frozen=True)
class Recipe:
    """The text of a snippet, of the command lines that print the same, and of the sources that a citation names.

    ``local`` says that one of them is a path of this machine, which no link leads to.
    """

    python: str
    command: str = ""
    sources: tuple[str, ...] = ()
    local: bool = False

    def citation(self, title: str, *, today: date | None = None) -> str:
        """Return a BibTeX entry of a view with this title, to which the page adds its address."""
        day = today or date.today()
        fields = {
            "title": "{" + title.translate(_SPECIAL) + "}",
            "author": "{The hfposemb developers}",
            "year": str(day.year),
            "howpublished": f"hfposemb {hpe.__version__}",
            "note": f"Drawn on {day.isoformat()} from {'; '.join(self.sources).translate(_SPECIAL)}",
        }
        lines = [f"  {name} = {{{' '.join(value.split())}}}" for name, value in fields.items()]
        return "@misc{hfposemb,\n" + ",\n".join(lines) + "\n}"


# --- the parts that snippets are made of ------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Return a text as a Python literal, in double quotes where it holds none."""
    literal = repr(text)
    return literal if '"' in literal else f'"{literal[1:-1]}"'


def pinned(source: Opened) -> str:
    """Return the name of a source; that of a Hub source with the commit that was read."""
    name = source.text.strip()
    commit = _commit(source)
    try:
        parsed = parse_source(name) if commit else None
    except HfposembError:
        parsed = None
    return f"{parsed.repo}@{commit}" if isinstance(parsed, HubSource) else name


def _commit(source: Opened) -> str:
    tables: Iterable[EmbeddingTable] = () if source.embeddings is None else source.embeddings.tables.values()
    return next((table.provenance.commit for table in tables if table.provenance.commit), "")


def _local(source: Opened) -> bool:
    try:
        return isinstance(parse_source(source.text), LocalSource)
    except HfposembError:
        return True


def _cited(source: Opened, roles: Sequence[str]) -> str:
    """Name a source with the hashes of the tables that a view reads. Nothing is read from the Hub for it."""
    said = [hashed for role in roles if (hashed := _hash(source, role))]
    return f"{pinned(source)} ({', '.join(said)})" if said else pinned(source)


def _hash(source: Opened, role: str) -> str:
    table = source.table(role)
    if table is None:
        return ""
    known = "digest" in vars(table)
    if not known and (_commit(source) or table.shape[0] * table.shape[1] > HASHED):
        return ""
    return f"{role} table SHA-256 {table.digest}"


def extracted(source: Opened) -> str:
    """Return the expression that opens a source."""
    return f"hpe.extract({quoted(pinned(source))})"


def of_part(source: Opened) -> str:
    """Return the expression of a source with the part of it that is compared."""
    return extracted(source) + (f".part({quoted(source.wanted)})" if source.wanted else "")


def position(source: Opened) -> str:
    """Return the expression of the position encoding that is shown."""
    return extracted(source) + (".position" if _first(source) else f".positions[{quoted(source.part)}]")


def _first(source: Opened) -> bool:
    return source.part == next(iter(source.parts), "")


def rows(shown: Positions) -> str:
    """Return the expression of the table of positions that is shown, as far as it is."""
    encoding = position(shown.source)
    if shown.turning:
        return f"replace({encoding}, length={shown.length}).table"
    return f"{encoding}.table{'' if shown.complete else f'.part(0, {shown.length})'}"


def role_of(source: Opened) -> str:
    """Return the role of the table whose positions are shown."""
    return "position" if source.part in ("", "position") else f"{source.part}.position"


def _by(values: Mapping[str, str], name: str = "shown") -> list[str]:
    """Return the lines that put expressions by their names into a dict."""
    return [f"{name} = {{", *(f"    {quoted(key)}: {value}," for key, value in values.items()), "}"]


def _recipe(
    body: Sequence[str],
    sources: Sequence[Opened],
    *,
    imports: Sequence[str] = (),
    command: Sequence[str] = (),
    roles: Sequence[str] = (),
) -> Recipe:
    standard = [line for line in imports if not line.startswith(("from hfposemb", "import numpy"))]
    others = [line for line in imports if line not in standard and line != "import numpy as np"]
    numpy = ["import numpy as np"] if any("np." in line for line in body) else []
    heads = [*standard, *([""] if standard else []), *numpy, *([""] if numpy else []), "import hfposemb as hpe"]
    lines = [*heads, *sorted(others), "", *body, "print(shown)"]
    readable = all(line.isprintable() for line in command)  # else a terminal would not show what it runs
    cited = tuple(_cited(source, roles or (role_of(source),)) for source in sources)
    return Recipe("\n".join(lines) + "\n", "\n".join(command) if readable else "", cited, any(map(_local, sources)))


def _called(*words: object) -> str:
    return shlex.join(["hfposemb", *map(str, words)])


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(str(int(value)) for value in values)


def fold(recipe: Recipe, title: str) -> str:
    """Return a recipe as HTML, for a view that ``plot.js`` does not draw: closed at first, with a button for each text.

    ``COPY_JS`` makes the buttons work, ``FOLD_CSS`` gives the look of the panels' own.
    """
    texts = {"Python": recipe.python, "Command line": recipe.command, "Cite": recipe.citation(title)}
    parts = [
        f'<div><p><strong>{name}</strong><button type="button" aria-label="Copy {name}">Copy</button></p>'
        f'<pre tabindex="0" aria-label="{name}" role="group">{html.escape(text)}</pre></div>'
        for name, text in texts.items()
        if text
    ]
    return f'<details class="recipe"><summary>Python</summary>{"".join(parts)}</details>'


FOLD_CSS = """
    .recipe p { display: flex; justify-content: space-between; margin: 12px 0 4px; max-width: none; }
    .recipe pre { margin: 0; padding: 12px 16px; overflow-x: auto; border-radius: 8px;
      font-size: 13px; line-height: 20px;
      background: var(--background-fill-secondary, #f1f3f5); color: var(--body-text-color);
      font-family: var(--font-mono, ui-monospace, monospace); }
    .recipe > div:not(:first-of-type) pre { white-space: pre-wrap; overflow-wrap: anywhere; }
    .recipe button { font: inherit; color: inherit; background: none; border: 0; min-height: 24px; min-width: 44px;
      padding: 0; cursor: pointer; text-decoration: underline; text-underline-offset: 4px; }
"""

COPY_JS = """
  element.addEventListener("click", (event) => {
    const button = event.target.closest(".recipe button");
    if (button) window.hfposemb.copy(button, button.closest("div").querySelector("pre"));
  });
"""
"""Copying is that of the page's panels."""


# --- sentences --------------------------------------------------------------------------------------------------------


def sentence(source: Opened, text: str, *, pieces: int, stripes: int) -> Recipe:
    """Return what gives token, position and input of each piece of a sentence."""
    body = [
        f"inputs = {extracted(source)}.inputs({quoted(text)})",
        'parts = {"token": inputs.token, "position": inputs.position, "input": inputs.sum}',
        f"shown = {{name: part[:{pieces}, :{stripes}] for name, part in parts.items()}}",
    ]
    return _recipe(body, [source], roles=("token", "position"))


def reordering(source: Opened, text: str, other: str | Sequence[int], *, words: Sequence[int]) -> Recipe:
    """Return what gives the cosines of the inputs of a sentence in two orders."""
    second = quoted(other) if isinstance(other, str) else f"[{_listed(other)}]"
    body = [
        f"source = {extracted(source)}",
        f"found = reordered(source.inputs({quoted(text)}), source.inputs({second}))",
        f"shown = found.cosines[[{_listed(words)}]]",
    ]
    return _recipe(
        body, [source], imports=["from hfposemb.composition.word_order import reordered"], roles=("token", "position")
    )


# --- positions --------------------------------------------------------------------------------------------------------


def projections(found: Sequence[Positions], *, dims: int) -> Recipe:
    """Return what gives the clouds of some tables, by PCA."""
    body = [
        *_by({pinned(shown.source): rows(shown) for shown in found}, "tables"),
        "shown = {",
        f'    name: hpe.project(table, method="pca", dims={dims}).coordinates for name, table in tables.items()',
        "}",
    ]
    return _recipe(body, [shown.source for shown in found])


def cloud(shown: Positions, *, method: str, dims: int) -> Recipe:
    """Return what gives the cloud of positions and their matrix."""
    source, values = shown.source, {}
    body = [f"table = {rows(shown)}"]
    if dims > 1:
        project = f'hpe.project(table, method="{method}", dims={dims})'
        values["cloud"] = f"{project}.coordinates"
        if method == "umap" and not shown.complete:  # it is laid out among all
            project = f'hpe.project({position(source)}.table, method="umap", dims={dims})'
            body.append(f"found = {project}")
            values["cloud"] = f"found.coordinates[found.rows < {shown.length}]"
    values["matrix"] = f"{position(source)}.matrix({shown.length})" if shown.turning else "hpe.similarity(table)"
    body += _by(values)
    command = []
    if shown.complete and dims > 1:
        options = ("--table", role_of(source), "--method", method, "--dims", dims)
        command = [_called("project", pinned(source), *options)]
    imports = ["from dataclasses import replace"] if shown.turning else []
    return _recipe(body, [source], imports=imports, command=command)


def mechanism(source: Opened, at: np.ndarray, length: int) -> Recipe:
    """Return what gives the profile and the matrix of a mechanism that has no rows."""
    body = [
        f"encoding = {position(source)}",
        *_by({"profile": f"encoding.profile({_distances(at)})", "matrix": f"encoding.matrix({length})"}),
    ]
    return _recipe(body, [source])


def _distances(at: np.ndarray) -> str:
    return f"np.arange({int(at.min())}, {int(at.max()) + 1})"


def _of_tables(found: Sequence[Positions], value: str, module: str, name: str, *, figure: str = "") -> Recipe:
    """Return what gives a ``value`` of every table of some sources, which a ``figure`` of the command line has too."""
    body = [
        *_by({pinned(shown.source): rows(shown) for shown in found}, "tables"),
        f"shown = {{name: {value} for name, table in tables.items()}}",
    ]
    sources = [shown.source for shown in found]
    plain = all(_first(shown.source) and shown.complete for shown in found)
    command = [_called("export", *map(pinned, sources), "--figure", figure, "--out", f"{figure}.json")]
    imports = [f"from hfposemb.{module} import {name}"]
    return _recipe(body, sources, imports=imports, command=command if figure and plain else ())


def likeness(found: Sequence[Positions]) -> Recipe:
    """Return what gives the mean cosine by distance of some tables."""
    return _of_tables(found, "likeness(table)", "views", "likeness", figure="distance")


def profiles(found: Sequence[Positions], others: Mapping[Opened, np.ndarray]) -> Recipe:
    """Return what gives likeness by distance of tables, and the profile of mechanisms at the distances drawn."""
    if not others:
        return likeness(found)
    values = {pinned(shown.source): f"likeness({rows(shown)})" for shown in found}
    values |= {pinned(source): f"{position(source)}.profile({_distances(at)})" for source, at in others.items()}
    imports = ["from hfposemb.figures.named_figures import likeness"] if found else []
    return _recipe(_by(values), [*(shown.source for shown in found), *others], imports=imports)


def lengths(found: Sequence[Positions]) -> Recipe:
    """Return what gives the norms of some tables."""
    return _of_tables(found, "lengths(table)", "views", "lengths", figure="norms")


def variance(found: Sequence[Positions]) -> Recipe:
    """Return what gives the cumulative variance of some tables."""
    return _of_tables(found, "spectrum(table).cumulative", "geometry", "spectrum", figure="variance")


def waves(found: Sequence[Positions]) -> Recipe:
    """Return what gives the strength of the waves of some tables, the shortest first."""
    return _of_tables(found, "waves(table).strength[::-1]", "geometry", "waves")


def wavelengths(source: Opened) -> Recipe:
    """Return what gives the wavelengths of a rotary source, before and after scaling."""
    body = [f"found = {position(source)}.scaled", *_by({"before": "found.before", "after": "found.after"})]
    return _recipe(body, [source])


def image(shown: Positions, dimensions: Sequence[int], *, skip: int) -> Recipe:
    """Return what gives a table and some of its dimensions."""
    values = {"table": "vectors"}
    if dimensions:
        start = str(skip) if skip else ""
        values["waves"] = f"vectors[{start}:, [{_listed(dimensions)}]]"
    source, command = shown.source, []
    body = [f"vectors = {rows(shown)}.vectors", *_by(values)]
    if shown.complete and not shown.turning:
        command = [_called("extract", pinned(source), "--table", role_of(source), "--out", "positions.npz")]
    imports = ["from dataclasses import replace"] if shown.turning else []
    return _recipe(body, [source], imports=imports, command=command)


def patch_tiles(source: Opened, part: str) -> Recipe:
    """Return what gives the maps of a source's patches."""
    body = [f"shown = patch_maps({_of_part(source, part)}).maps"]
    return _recipe(body, [source], imports=["from hfposemb.analysis.patches import patch_maps"], roles=(_role(part),))


def patch_map(source: Opened, part: str, patch: int) -> Recipe:
    """Return what gives the map of one patch."""
    body = [f"shown = patch_map({_of_part(source, part)}, {patch})"]
    return _recipe(body, [source], imports=["from hfposemb.analysis.patches import patch_map"], roles=(_role(part),))


def _of_part(source: Opened, part: str) -> str:
    return f"{extracted(source)}.positions[{quoted(part)}]"


def _role(part: str) -> str:
    return "position" if part == "position" else f"{part}.position"


def shifts(found: Sequence[Positions], which: str, split: str) -> Recipe:
    """Return what gives held-out R² of a shift by every distance, drawn from 0 on."""
    value = f"shift_by_distance(table).{which}[{quoted(split)}].clip(0)"
    return _of_tables(found, value, "shifts", "shift_by_distance")


def planes(found: Sequence[Positions], step: int) -> Recipe:
    """Return what gives the angle that each plane should turn by, and the one that it does, in degrees."""
    value = f"np.rad2deg([turning(table, {step}).expected, turning(table, {step}).turned])"
    return _of_tables(found, value, "shifts", "turning")


def probes(sources: Sequence[Opened]) -> Recipe:
    """Return what gives the mean errors of all probes of some tables of positions."""
    body = [
        *_by({pinned(source): f"{position(source)}.table" for source in sources}, "tables"),
        "found = {name: probes(table) for name, table in tables.items()}",
        "shown = {name: {probe: one.mean for probe, one in each.items()} for name, each in found.items()}",
    ]
    return _recipe(body, sources, imports=["from hfposemb.analysis.probes import probes"])


def requirements(source: Opened, *, drawn: bool) -> Recipe:
    """Return what gives the numbers of the requirements of positions and, where drawn, what its waves tell."""
    part = "" if _first(source) else f", part={quoted(source.part)}"
    body = [
        f"source = {extracted(source)}",
        f"found = requirements(source{part})",
        "shown = {item.name: item.value for item in found.items}",
    ]
    imports = ["from hfposemb.analysis.encoding_properties import requirements"]
    if drawn:
        of = "source.position" if _first(source) else f"source.positions[{quoted(source.part)}]"
        body += [f"waves = resolution({of})", 'shown |= {"slow": waves.slow, "fast": waves.fast}']
        imports.append("from hfposemb.analysis.resolution import resolution")
    options = ("--resolution", "--json") if drawn else ("--json",)
    command = [_called("requirements", pinned(source), *options)] if _first(source) else []
    return _recipe(body, [source], imports=imports, command=command)


# --- logits -----------------------------------------------------------------------------------------------------------

_SENTENCE_ROLES = ("token", "position")


def logit_shares(source: Opened, text: str) -> Recipe:
    """Return what gives the shares of the nine terms of a sentence's logits."""
    body = [f"found = shares({extracted(source)}.logits({quoted(text)}))", "shown = found.mean[:9].reshape(3, 3)"]
    return _recipe(
        body, [source], imports=["from hfposemb.composition.attention_logits import shares"], roles=_SENTENCE_ROLES
    )


def logit_map(source: Opened, text: str, term: str, head: int | None, *, pieces: int) -> Recipe:
    """Return what gives one term of a sentence's logits less their means, in one head or over all."""
    chosen = ".mean(axis=0)" if head is None else f"[{head}]"
    body = [
        f"rows = less_mean({extracted(source)}.logits({quoted(text)}), {quoted(term)})",
        f"shown = rows{chosen}[:{pieces}, :{pieces}]",
    ]
    return _recipe(
        body, [source], imports=["from hfposemb.composition.attention_logits import less_mean"], roles=_SENTENCE_ROLES
    )


def identical(source: Opened, word: int, *, near: int) -> Recipe:
    """Return what gives the attention by distance where one word stands everywhere."""
    body = [
        f"found = identical({extracted(source)}, {word})",
        f"near = abs(found.distances) <= {near}",
        *_by({"attention": "found.mean.mean(axis=0)[near]", "spread evenly": "found.uniform[near]"}),
    ]
    return _recipe(
        body, [source], imports=["from hfposemb.composition.attention_logits import identical"], roles=_SENTENCE_ROLES
    )


def logits_by_distance(sources: Sequence[Opened], *, longest: int) -> Recipe:
    """Return what gives the change of the first layer's logit by distance."""
    body = [
        *_by({pinned(source): extracted(source) for source in sources}, "sources"),
        f"found = {{name: by_distance(source, longest={longest}) for name, source in sources.items()}}",
        "shown = {name: one.change.mean(axis=0) for name, one in found.items()}",
    ]
    return _recipe(body, sources, imports=["from hfposemb.composition.attention_logits import by_distance"])


# --- tokens -----------------------------------------------------------------------------------------------------------

_TOKEN = ("token",)


def token_map(source: Opened, *, method: str, dims: int, values: str = "") -> Recipe:
    """Return what gives the map of a vocabulary and, where it is coloured by numbers, these: norms or trust."""
    body = [
        f"table = {extracted(source)}.token",
        f'found = hpe.project(table, method="{method}", dims={dims})',
    ]
    shown, imports = {"map": "found.coordinates"}, []
    if values == "Norm":
        shown["norms"] = "norms(table)[found.rows]"
        imports = ["from hfposemb.analysis.rows import norms"]
    if values == "Trust":
        body.append("metric = found.quality.metric")
        body.append("trust = point_trust(table, found.coordinates, rows=found.rows, metric=metric, points=2000)")
        shown["trust"] = "trust.neighbours_kept"
        imports = ["from hfposemb.analysis.projection_quality import point_trust"]
    command = _called("project", pinned(source), "--table", "token", "--method", method, "--dims", dims)
    return _recipe([*body, *_by(shown)], [source], imports=imports, command=[command], roles=_TOKEN)


def _centring(centred: bool) -> tuple[str, tuple[str, ...]]:
    """Return how centred rows are asked for, in Python and on the command line."""
    return (", centred=True", ("--centred",)) if centred else ("", ())


def neighbours(words: Mapping[Opened, int], *, k: int, centred: bool) -> Recipe:
    """Return what gives the nearest tokens of a row in every source."""
    more, options = _centring(centred)
    values = {
        pinned(source): f"hpe.neighbours({extracted(source)}.token, {row}, k={k}{more}).values"
        for source, row in words.items()
    }
    command = [
        _called("neighbours", pinned(source), row, "--table", "token", "-k", k, *options)
        for source, row in words.items()
    ]
    return _recipe(_by(values), list(words), command=command, roles=_TOKEN)


def spread(source: Opened, row: int, *, bins: int, k: int, centred: bool) -> Recipe:
    """Return what gives how many tokens have which cosine with a row, and its nearest."""
    more, _ = _centring(centred)
    body = [
        f"table = {extracted(source)}.token",
        *_by(
            {
                "counts": f"query_distribution(table, {row}, bins={bins}{more}).counts",
                "nearest": f"hpe.neighbours(table, {row}, k={k}{more}).values",
            }
        ),
    ]
    return _recipe(
        body, [source], imports=["from hfposemb.analysis.similarity_matrix import query_distribution"], roles=_TOKEN
    )


def pairs(source: Opened, chosen: Sequence[int], *, centred: bool) -> Recipe:
    """Return what gives the cosines of chosen tokens."""
    more, options = _centring(centred)
    body = [f"found = pairs({extracted(source)}.token, [{_listed(chosen)}]{more})", "shown = found.values"]
    rows = _listed(chosen).replace(" ", "")
    command = _called("similarity", pinned(source), "--table", "token", "--rows", rows, *options)
    imports = ["from hfposemb.analysis.row_pairs import pairs"]
    return _recipe(body, [source], imports=imports, command=[command], roles=_TOKEN)


def matches(sources: Sequence[Opened], text: str, *, regex: bool, most: int) -> Recipe:
    """Return what gives the norms of the tokens that a search finds, the shortest first."""
    test = f"{quoted(text.casefold())} in label.casefold()"
    if regex:
        test = f"re.search({quoted(text)}, label, re.IGNORECASE)"
    first = []
    if not regex and text.isascii() and text.isdecimal() and len(text) < 9:  # an id comes before what contains it
        first = [
            f"    if {int(text)} < len(table.labels):",
            f"        rows = list(dict.fromkeys([{int(text)}, *rows]))",
        ]
    body = [
        "shown = {}",
        f"for name in [{', '.join(quoted(pinned(source)) for source in sources)}]:",
        "    table = hpe.extract(name).token",
        f"    rows = [row for row, label in enumerate(table.labels) if {test}]",
        "    rows.sort(key=lambda row: (len(table.labels[row].strip()), row))",
        *first,
        f"    shown[name] = norms(table)[rows[:{most}]]",
    ]
    imports = ["from hfposemb.analysis.rows import norms", *(["import re"] if regex else [])]
    return _recipe(body, sources, imports=imports, roles=_TOKEN)


def odd(source: Opened, names: Sequence[str], *, count: int) -> Recipe:
    """Return what gives the lists of odd tokens."""
    body = [
        f"found = oddities({extracted(source)}.token, count={count})",
        f"names = [{', '.join(map(quoted, names))}]",
        "shown = {name: [odd.value for odd in found[name].rows] for name in names}",
    ]
    command = _called("odd", pinned(source), "--count", count, "--json")
    imports = ["from hfposemb.analysis.undertrained_tokens import oddities"]
    return _recipe(body, [source], imports=imports, command=[command], roles=_TOKEN)


# --- words and positions ----------------------------------------------------------------------------------------------


def _adding(adding: Adding) -> str:
    return f"Adding({quoted(adding.whose)}{'' if adding.scaled else ', scaled=False'})"


_ADDED = "from hfposemb.composition.added_positions import Adding, added"


def _of_sum(source: Opened, adding: Adding, body: Sequence[str], imported: str) -> Recipe:
    """Return what gives numbers of ``words``, the sum of a source's words and positions."""
    words = f"words = added({extracted(source)}, {_adding(adding)})"
    return _recipe([words, *body], [source], imports=[_ADDED, imported], roles=_SENTENCE_ROLES)


def sweeps(source: Opened, addings: Sequence[Adding], values: Sequence[str]) -> Recipe:
    """Return what gives ``values`` of the sweep of the amplitude, for some kinds of positions."""
    called = [f"{_adding(one)}" for one in addings]
    body = [
        f"source = {extracted(source)}",
        f"protocols = [{', '.join(called)}]",
        "found = {one.whose: sweep(added(source, one)) for one in protocols}",
        f"shown = {{whose: [{', '.join(f'one.{value}' for value in values)}] for whose, one in found.items()}}",
    ]
    imports = [_ADDED, "from hfposemb.composition.amplitude_sweep import sweep"]
    return _recipe(body, [source], imports=imports, roles=_SENTENCE_ROLES)


def finding(source: Opened, adding: Adding, place: int) -> Recipe:
    """Return what gives the share of neighbours that stays at one amplitude, and how long words are by positions."""
    body = _by({"neighbours kept": f"sweep(words).kept[{place}]", "words by positions": "words.ratio"})
    return _of_sum(source, adding, body, "from hfposemb.composition.amplitude_sweep import sweep")


def moved(source: Opened, adding: Adding, row: int, place: int, *, amplitude: float, k: int) -> Recipe:
    """Return what gives the neighbours of a word alone and of its sum with a position."""
    body = [
        f"found = moved(words, {row}, {place}, amplitude={amplitude:g}, k={k})",
        *_by({"alone": "found.before.values", "in its place": "found.after.values"}),
    ]
    return _of_sum(source, adding, body, "from hfposemb.composition.amplitude_sweep import moved")


def anchors(source: Opened, adding: Adding, row: int, others: Sequence[int]) -> Recipe:
    """Return what gives the cosines of a word with anchor words at every amplitude."""
    body = [f"shown = anchored(words, {row}, [{_listed(others)}]).mean"]
    return _of_sum(source, adding, body, "from hfposemb.composition.anchor_words import anchored")


def kept_map(source: Opened, adding: Adding, chosen: Sequence[int], *, most: int, step: int, k: int) -> Recipe:
    """Return what gives the share that words keep at the first places."""
    body = [
        f"places = np.flatnonzero(words.usable[:{most}])",
        f"shown = kept_at(words, [{_listed(chosen)}], places, k={k})[{step}]",
    ]
    return _of_sum(source, adding, body, "from hfposemb.composition.amplitude_sweep import kept_at")


def club(source: Opened, adding: Adding, chosen: Sequence[int], *, places: int, value: str) -> Recipe:
    """Return what gives a ``value`` of the cloud of some words at the first inner places."""
    body = [
        f"source = {extracted(source)}",
        f"words = added(source, {_adding(adding)})",
        f"found = cloud(words, source, [{_listed(chosen)}], words.inner[:{places}])",
        value,
    ]
    return _recipe(
        body,
        [source],
        imports=[_ADDED, "from hfposemb.composition.variance_decomposition import cloud"],
        roles=_SENTENCE_ROLES,
    )


# --- sources beside each other ----------------------------------------------------------------------------------------


def compared(sources: Sequence[Opened], *, draws: int, words: Sequence[str], pairs: bool) -> Recipe:
    """Return what gives the figures of sources, or of every two of them, beside what chance gives."""
    found = ["sources = [", *(f"    {of_part(source)}," for source in sources), "]"]
    values = "[pair.observed for pair in found.pairs]"
    if not pairs:
        values = "[{name: one.value for name, one in each.metrics.items()} for each in found.sources]"
    body = [*found, f"found = hpe.compare(*sources, draws={draws})", f"shown = {values}"]
    parts = [word for source in sources for word in ("--part", source.wanted or "-")]
    chosen = parts if any(source.wanted for source in sources) else []
    if len(sources) == 1 or len({source.wanted for source in sources}) == 1:
        chosen = chosen[:2]
    command = _called("compare", *map(pinned, sources), "--words", ",".join(words), "--draws", draws, *chosen, "--json")
    return _recipe(body, sources, command=[command], roles=_SENTENCE_ROLES)


def moves(left: Opened, right: Opened, at: int) -> Recipe:
    """Return what gives the words that moved most between two sources, and the neighbours of one of them."""
    body = [
        f"found = moved({of_part(left)}, {of_part(right)})",
        f"word = found.most[{at}]",
        *_by(
            {
                "moved most": "[one.distance for one in found.most]",
                "left": "[cosine for _, cosine in word.left]",
                "right": "[cosine for _, cosine in word.right]",
            }
        ),
    ]
    return _recipe(body, [left, right], imports=["from hfposemb.comparison.moved_words import moved"], roles=_TOKEN)


def maps(left: Opened, right: Opened, role: str, method: str, side: str) -> Recipe:
    """Return what gives one of two maps in one frame."""
    body = [
        f"left, right = {of_part(left)}, {of_part(right)}",
        f'shown = aligned(left, right, "{role}", method="{method}").coordinates_{side}',
    ]
    return _recipe(
        body,
        [left, right],
        imports=["from hfposemb.comparison.aligned_maps import aligned"],
        roles=(role,),
    )


# --- training ---------------------------------------------------------------------------------------------------------


def training(
    source: Opened,
    pattern: str,
    role: str,
    *,
    value: str,
    metrics: Sequence[str] | None,
    printed: bool,
    most: int | None,
) -> Recipe:
    """Return what gives a ``value`` of a training ``run``, thinned to ``most`` checkpoints.

    The command prints ``metrics`` by step, and of every run how alike its checkpoints are.
    """
    sources, imported = f"revisions({quoted(source.text)}, {quoted(pattern)})", "revisions"
    options = ["--revisions", pattern, "--table", role]
    if most is not None:
        sources, imported = f"spread({sources}, {most})", "revisions, spread"
        options += ["--most", str(most)]
    measured = "metrics=None"
    if metrics is not None:
        measured = f"metrics=[{', '.join(map(quoted, metrics))}], draws={TRAINING_DRAWS}"
        options += [part for name in metrics for part in ("--metric", name)] + ["--draws", str(TRAINING_DRAWS)]
    body = [
        f"sources = {sources}",
        f"run = hpe.trajectory(sources, role={quoted(role)}, {measured})",
        f"shown = {value}",
    ]
    command = [_called("trajectory", source.text, *options, "--json")] if printed or metrics is not None else []
    return _recipe(
        body,
        [source],
        imports=[f"from hfposemb.surveys.source_lists import {imported}"],
        command=command,
        roles=(role,),
    )
