"""Read, measure and compare the token and position embedding tables of pretrained models."""

from __future__ import annotations


def _homes() -> dict[str, str]:
    """Return the module of each public name, which ``__init__.pyi`` states for type checkers and editors, too.

    Names are imported on first use, so that ``import hfposemb`` is fast.
    """
    from pathlib import Path

    lines = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    parts = [line.split() for line in lines if line.startswith("from .")]
    return {name: module.removeprefix(".") for _, module, _, name, *_ in parts}


_HOME = _homes()

_ALIASES = {"neighbors": "neighbours", "from_pretrained": "extract", "load": "extract"}
"""What most libraries call a public name."""

__version__ = "0.1.0"
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    import sys
    from importlib import import_module
    from types import FunctionType

    from .guesses import answering, unknown_attribute

    ours = _ALIASES.get(name, name)
    if ours not in _HOME:
        this = sys.modules[__name__]
        raise unknown_attribute(this, name, __all__, what="module 'hfposemb'", table="model.token", source="model")
    value = getattr(import_module(f".{_HOME[ours]}", __name__), ours)
    if isinstance(value, FunctionType):
        value = answering(value, __name__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
