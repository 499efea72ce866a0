"""A Hugging Face Space that runs the app.

It contains what a clone of the repository would: the sources of the package and the app, and pinned requirements. So it
does not depend on a release of the package, and a duplicate of it runs unchanged: no secret and no variable is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from ..checkpoints.tokenizers.vocabulary_files import needed_files
from ..errors import HubError, InputError, MissingFileError
from ..tables.source_parser import parse_source
from ..tables.sources import HubSource, LocalSource
from .space_upload import Kind, check_name, told, upload

PYTHON = "3.11"

PINS = {
    "numpy": "2.4.6",
    "scipy": "1.17.1",
    "scikit-learn": "1.9.1",
    "umap-learn": "0.5.12",
    "numba": "0.68.1",
    "huggingface_hub": "2.4.0",
    "tokenizers": "0.23.3",
    "plotly": "7.1.0",
    "joblib": "1.6.0",
    "threadpoolctl": "3.8.0",
    "tqdm": "4.70.1",
    "fsspec": "2026.9.0",
    "pyyaml": "6.0.4",
    "starlette": "1.10.0",
    "brotli": "1.2.1",
    "google-re2": "1.1.20251105",
    "mcp": "1.30.0",
}
"""Versions that are tested together, the same as in ``requirements.txt`` of the repository."""

GRADIO = "6.31.0"
"""The version of Gradio that they are tested with. The Hub installs what the front matter names, before and after the
requirements; if these named a version too, neither could be changed alone."""

TAGS = ("embeddings", "positional-encoding", "interpretability", "transformers", "mcp-server")

SOURCES = "sources.txt"
"""File with the sources that a Space shows first, one per line. A file, so that a duplicate has it too."""

SDK = "gradio"
_ENTRY = "app/space.py"
_PICTURE = "app/static/preview.png"
_OURS = ("app/*", "hfposemb/*", SOURCES)


@dataclass(frozen=True)
class Preset:
    """A Hub model that a Space opens with: its full name, and the small files to download during the build."""

    repo: str
    files: tuple[str, ...] = ()
    commit: str | None = None

    def __str__(self) -> str:
        """Return the preset in the format of ``preload_from_hub``."""
        return " ".join(filter(None, (self.repo, ",".join(self.files), self.commit)))


# --- content of a Space -----------------------------------------------------------------------------------------------


def front_matter(presets: Sequence[Preset] = (), *, name: str = "") -> str:
    """Return the front matter of the README, which tells the Hub how to run the Space.

    Args:
        presets: Models that it opens with.
        name: ``owner/name`` of the Space; needed for its thumbnail, which has an absolute address.
    """
    lines = [
        "title: hfposemb",
        "emoji: 🌀",
        "colorFrom: blue",
        "colorTo: pink",
        f"sdk: {SDK}",
        f"sdk_version: {GRADIO}",
        f'python_version: "{PYTHON}"',
        f"app_file: {_ENTRY}",
        "license: apache-2.0",
        "hf_oauth: true",
        *("hf_oauth_scopes:", "- read-repos", "- gated-repos"),
        "hf_oauth_expiration_minutes: 480",
        "short_description: What a pretrained model knows about words and positions",
        "suggested_hardware: cpu-basic",
        "tags:",
        *(f"- {tag}" for tag in TAGS),
    ]
    if name:
        from huggingface_hub import HfApi

        lines.append(f"thumbnail: {HfApi().endpoint}/spaces/{name}/resolve/main/{_PICTURE}")
    preloaded = [str(preset) for preset in presets if preset.files]
    for name, values in (("models", [preset.repo for preset in presets]), ("preload_from_hub", preloaded)):
        if values:
            lines += [f"{name}:", *(f"- {json.dumps(value)}" for value in values)]
    return "".join(f"{line}\n" for line in lines)


def requirements() -> str:
    """Return the Space's ``requirements.txt``."""
    return "".join(f"{name}=={version}\n" for name, version in PINS.items())


def space_files(models: Sequence[str] = (), *, presets: Sequence[Preset] = (), name: str = "") -> dict[str, Path | str]:
    """Return the files of a Space by path: a file of this package, or a text.

    Args:
        models: Sources it opens with, by default some that need no network.
        presets: Those of them that are Hub models.
        name: ``owner/name`` of the Space.
    """
    from ..app import __file__ as app

    package, page = Path(__file__).parents[1], Path(app).parent
    files: dict[str, Path | str] = {
        "README.md": f"---\n{front_matter(presets, name=name)}---\n\n{_about(models)}",
        "requirements.txt": requirements(),
        "LICENSE": _licence(),
    }
    if models:
        files[SOURCES] = "".join(f"{model}\n" for model in models)
    files |= {f"hfposemb/{name}": path for name, path in _tree(package).items() if page not in path.parents}
    return files | {f"app/{name}": path for name, path in _tree(page).items()}


def _tree(folder: Path) -> dict[str, Path]:
    """Return the files that belong to a package, without what Python and Gradio generate, and source maps."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    kept = (path for path in found if path.name == "__init__.pyi" or path.suffix not in (".pyc", ".pyi", ".map"))
    return {path.relative_to(folder).as_posix(): path for path in kept}


def _about(models: Sequence[str]) -> str:
    from .. import __version__

    shown = f"It opens with {', '.join(models)}." if models else "It opens with models that are included."
    return (
        "# hfposemb\n\n"
        "See and measure what a pretrained model knows about words and positions: its token and position embedding\n"
        "tables, compared with other models, with the sinusoidal encoding and with untrained tables.\n\n"
        f"{shown} The file `{SOURCES}` lists these sources, one per line.\n\n"
        "Duplicate this Space to get your own: it reads public models and needs neither a token nor secrets.\n"
        f"Version {__version__}, deployed by `hfposemb space`; licence: Apache-2.0.\n"
    )


def _licence() -> str:
    try:
        text = distribution("hfposemb").read_text("licenses/LICENSE")
    except PackageNotFoundError:
        text = None
    return text or (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")


def first_sources(folder: Path) -> tuple[str, ...]:
    """Return the sources that the Space in a folder opens with; empty if not specified."""
    try:
        text = (folder / SOURCES).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


# --- upload -----------------------------------------------------------------------------------------------------------


def presets_of(models: Sequence[str]) -> tuple[Preset, ...]:
    """Look up the Hub models among some sources as the Space will: without a token.

    Args:
        models: The sources.

    Raises:
        InputError: If a Space cannot open a source, or there are too many.
        HubError: If a model is not public.
    """
    from ..app.limits import MOST_SOURCES

    if len(models) > MOST_SOURCES:
        raise InputError(f"{len(models)} models given; the app shows at most {MOST_SOURCES} at once")
    found = []
    for model in models:
        source = parse_source(model)
        if isinstance(source, LocalSource):
            raise InputError(f"{model!r:.80} is a local path, which a Space cannot read; upload it to the Hub first")
        if isinstance(source, HubSource):
            found.append(_preset(source))
    return tuple(found)


def _preset(source: HubSource) -> Preset:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    with told(source.repo):
        try:
            info = HfApi().model_info(source.repo, revision=source.revision, token=False)
        except RepositoryNotFoundError as error:
            raise MissingFileError(f"{source.repo} is not a public model on the Hub") from error
        except RevisionNotFoundError as error:
            raise MissingFileError(f"{source.repo} has no revision {source.revision!r:.80}") from error
    if info.gated:
        raise HubError(f"{info.id} is gated, and a Space reads without a token; choose a public model")
    names = {one.rfilename for one in info.siblings or ()}
    files = tuple(name for name in dict.fromkeys(("config.json", *needed_files(names))) if name in names)
    return Preset(info.id, files, None if source.revision is None else info.sha)


def publish(name: str, *, models: Sequence[str] = (), private: bool = False) -> str:
    """Create or update the Space ``owner/name`` and return its URL.

    Needs a token with write access, from HF_TOKEN or a login. A Space of another SDK, or one that runs another app, is
    not modified.

    Args:
        name: ``owner/name`` of the Space.
        models: Sources it opens with, by default some that need no network.
        private: Whether to create it as private.

    Raises:
        InputError: If the name or a source is invalid.
        HubError: If the Hub refuses the request or cannot be reached.
    """
    check_name(name)
    files = space_files(models, presets=presets_of(models), name=name)
    return upload(name, files, Kind(SDK, _ENTRY, _OURS, "this app", "runs another app"), private=private)


# --- where it runs ----------------------------------------------------------------------------------------------------


def persistent_cache(disk: Path = Path("/data")) -> Path | None:
    """Return the folder for the disk cache on a Space's persistent storage, ``None`` if it has none.

    Args:
        disk: Where the Hub mounts the storage.
    """
    return disk / "hfposemb" if disk.is_dir() and os.access(disk, os.W_OK | os.X_OK) else None
