"""Location of the two small checkpoints that this project trained; README.md in this folder describes how."""

from pathlib import Path

from ..errors import SourceError

NAMES = ("bert", "gpt2")


def folder(name: str) -> Path:
    """Return the folder of a sample, one of ``NAMES``, in the layout of a saved transformers checkpoint.

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
        raise SourceError(f"unknown sample {name[:40]!r}; the samples are {' and '.join(NAMES)}")
    return Path(__file__).parent / name
