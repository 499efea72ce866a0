"""Location of the checkpoints in this package; README.md in this folder describes how each was made."""

from pathlib import Path

from ..errors import SourceError

NAMES = ("bert", "gpt2", "minilm")

TRAINED = ("bert", "gpt2")
"""Samples that this project trained: whole checkpoints, with snapshots of their training."""

LISTED = f"{', '.join(NAMES[:-1])} and {NAMES[-1]}"


def folder(name: str) -> Path:
    """Return the folder of a sample, one of ``NAMES``.

    Those in ``TRAINED`` are in the layout of a saved transformers checkpoint. ``minilm`` has the tables and the first
    layer's attention of a published model, with its words rounded to 8 bits.

    Args:
        name: Name of the sample.

    Raises:
        SourceError: If there is no such sample.

    Examples:
        >>> from hfposemb.samples import folder
        >>> folder("bert").name
        'bert'
    """
    if name not in NAMES:
        raise SourceError(f"unknown sample {name[:40]!r}; the samples are {LISTED}")
    return Path(__file__).parent / name


def check_trained(name: str) -> None:
    """Raise ``SourceError`` if a sample has no snapshots of its training."""
    if name not in TRAINED:
        raise SourceError(f"sample:{name} has no training steps; write sample:{name}, or sample:gpt2@step-500")
