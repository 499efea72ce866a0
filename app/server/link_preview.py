"""What messengers and search engines show of a link: the view's title and one picture, in place of Gradio's."""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path

from ..limits import MOST_SOURCES
from ..session.address import MODELS, TAB, read, sources_of
from ..session.source_names import short_names

PICTURE_PATH = "/preview.png"
PICTURE = Path(__file__).parents[1] / "static" / "preview.png"
WIDTH, HEIGHT = 1200, 630
DESCRIPTION = (
    "See what a pretrained model knows about words and positions: maps, similarities and comparisons of its embedding "
    "tables, measured on the model itself."
)
UNTITLED = "hfposemb: what a model knows about words and positions"
SUBJECTS = {
    "positions": "position embeddings",
    "tokens": "token embeddings",
    "words": "words + positions",
    "compare": "compared",
    "training": "in training",
}
"""What a tab shows of the models, by its key."""

_GRADIOS = re.compile(r'\s*<meta\s+(?:property="og:|name="twitter:)[^>]*>')


def titled(query: str) -> str:
    """Return the title of the view that an address's query opens.

    Examples:
        >>> titled("models=sample:minilm,sample:gpt2&tab=positions")
        'MiniLM and Demo GPT-2: position embeddings · hfposemb'
        >>> titled("")
        'hfposemb: what a model knows about words and positions'
    """
    found = read(query)
    models = list(sources_of(found.get(MODELS, ()), public=True))[:MOST_SOURCES]
    subject = SUBJECTS.get(found.get(TAB, [""])[0], "")
    names = short_names(models)
    listed = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
    if not listed:
        return f"{subject.capitalize()} · hfposemb" if subject else UNTITLED
    return f"{listed}{': ' if subject else ''}{subject} · hfposemb"


def with_preview(page: str, *, query: str, origin: str) -> str:
    """Return the page with the preview of its link in place of Gradio's.

    Args:
        page: HTML of the page.
        query: Query of the address, which holds the view.
        origin: Scheme, host and path before the page's own, since a picture needs an absolute address.
    """
    properties = {
        "og:title": titled(query),
        "og:type": "website",
        "og:description": DESCRIPTION,
        "og:image": f"{origin}{PICTURE_PATH}",
        "og:image:width": str(WIDTH),
        "og:image:height": str(HEIGHT),
        "og:image:alt": "Position embeddings of three models as curves in space, one dot per position",
    }
    tags = [f'<meta property="{name}" content="{html.escape(value)}" />' for name, value in properties.items()]
    tags.append('<meta name="twitter:card" content="summary_large_image" />')
    tags.append(f'<meta name="description" content="{html.escape(DESCRIPTION)}" />')
    return _GRADIOS.sub("", page).replace("</head>", "".join(f"\t\t{tag}\n" for tag in tags) + "\t</head>", 1)


@cache
def picture() -> bytes:
    """Return the picture as PNG."""
    return PICTURE.read_bytes()
