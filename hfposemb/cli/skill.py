"""``hfposemb skill``: print the skill for agents, or install it where agents look, as ``hf skills add`` does."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import HfposembError, InputError
from .options import print_result

NAME = "hfposemb"
FOLDER = Path(__file__).parents[1] / "skills" / NAME


def run_skill(given: argparse.Namespace) -> None:
    """Print the skill, or install it with ``--add``."""
    if not given.add:
        if given.everywhere or given.dest or given.force:
            raise InputError("--global, --dest and --force apply to --add")
        text = (FOLDER / "SKILL.md").read_text(encoding="utf-8")
        print_result(text.rstrip("\n"), {"skill": text}, given)
        return
    if given.dest is not None:
        if given.everywhere:
            raise InputError("give --dest or --global, not both")
        installed = install(given.dest.expanduser(), force=given.force)
        print_result(f"installed {installed}", {"installed": str(installed)}, given)
        return
    home = Path.home() if given.everywhere else Path()
    settings = os.environ.get("CLAUDE_CONFIG_DIR") if given.everywhere else None
    linked = (Path(settings) if settings else home / ".claude") / "skills"
    _check_free(linked / NAME, force=given.force)
    installed = install(home / ".agents" / "skills", force=given.force)
    linked = link(installed, linked, force=given.force)
    document = {"installed": str(installed), "linked": str(linked)}
    print_result(f"installed {installed}\nlinked {linked}", document, given)


def install(skills: Path, *, force: bool = False) -> Path:
    """Copy the skill into a folder of skills and return its own folder.

    Args:
        skills: The folder, which is created if necessary.
        force: Replace a skill of the same name.

    Raises:
        InputError: If there is one and ``force`` is not set.
        HfposembError: If the folder cannot be written.
    """
    place = skills / NAME
    _check_free(place, force=force)
    with _written(place):
        _remove(place)
        shutil.copytree(FOLDER, place)
    return place


def link(installed: Path, skills: Path, *, force: bool = False) -> Path:
    """Link an installed skill into another folder of skills, or copy it where links are not possible.

    Args:
        installed: The skill's folder.
        skills: The other folder, which is created if necessary.
        force: Replace a skill of the same name.

    Raises:
        InputError: If there is one and ``force`` is not set.
        HfposembError: If the folder cannot be written.
    """
    place = skills / NAME
    if place.resolve() == installed.resolve() and not place.is_symlink():
        return place
    _check_free(place, force=force)
    with _written(place):
        skills.mkdir(parents=True, exist_ok=True)
        _remove(place)
        try:
            place.symlink_to(os.path.relpath(installed.resolve(), skills.resolve()), target_is_directory=True)
        except OSError:  # Windows allows links only to developers
            shutil.copytree(FOLDER, place)
    return place


def _check_free(place: Path, *, force: bool) -> None:
    if not force and (place.exists() or place.is_symlink()):
        raise InputError(f"{place} exists; add --force to replace it")


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


@contextmanager
def _written(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HfposembError(f"cannot write {place}: {error.strerror}; choose another folder with --dest") from error
