"""Pictures of figures without a browser: what a notebook shows where a widget cannot run, and in exported pages."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..text import display

Image = NDArray[np.uint8]
"""Red, green and blue of every pixel [height, width, 3]."""

SIDE = 240
"""Width and height of a picture in pixels."""

DOT = 2
MARGIN = 8
WHITE = 255
LONGEST_CAPTION = 160


def picture_page(figures: Sequence[tuple[str, Any]], words: str) -> str:
    """Return HTML with a picture of every figure that can be drawn, and a caption for the others.

    Args:
        figures: Figures with their captions.
        words: Text above the pictures.
    """
    cells = []
    for caption, figure in figures:
        said = html.escape(display(caption, width=LONGEST_CAPTION))
        found = picture(figure)
        source = "" if found is None else f"data:image/png;base64,{base64.b64encode(png(found)).decode()}"
        drawn = f'<img alt="{said}" width="{SIDE}" height="{SIDE}" src="{source}">' if source else ""
        cells.append(f'<figure style="margin: 0; max-width: {SIDE}px">{drawn}<figcaption>{said}</figcaption></figure>')
    return (
        f'<div style="background: #fff; color: #1b2027; padding: 12px"><p>{html.escape(words)}</p>'
        f'<div style="display: flex; flex-wrap: wrap; gap: 16px">{"".join(cells)}</div></div>'
    )


def picture(figure: Any) -> Image | None:
    """Return a figure's dots, from above if it has three dimensions, or its matrix; ``None`` for lines.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.widget.static_picture import picture
        >>> picture(hpe.view("similarity", hpe.sinusoidal(64, 16))).shape
        (240, 240, 3)
    """
    traces = list(figure.data)
    if traces[0].type == "heatmap":
        return _matrix(traces[0])
    dots = [trace for trace in traces if "markers" in (trace.mode or "") and trace.x is not None and len(trace.x)]
    return _dots(dots) if dots else None


def png(image: Image) -> bytes:
    """Return an image as a PNG file."""
    height, width, _ = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
        + chunk(b"IEND", b"")
    )  # fmt: skip


def _matrix(trace: Any) -> Image:
    cells = np.asarray(trace.z, np.float64)
    down, across = (np.arange(SIDE) * length // SIDE for length in cells.shape)
    return _coloured(cells[np.ix_(down, across)], trace.zmin, trace.zmax, trace.colorscale)


def _dots(traces: Sequence[Any]) -> Image:
    """Draw dots in the order of their traces, the later above the earlier."""
    points = [np.stack([np.asarray(trace.x, float), np.asarray(trace.y, float)], axis=1) for trace in traces]
    together = np.concatenate(points)
    low, high = np.percentile(together, [0.5, 99.5], axis=0)
    room = SIDE - 2 * MARGIN
    scale = room / max(float((high - low).max()), 1e-12)
    image = np.full((SIDE, SIDE, 3), WHITE, np.uint8)
    for trace, at in zip(traces, points, strict=True):
        place = np.rint(SIDE / 2 + (at - (low + high) / 2) * scale * (1, -1)).astype(int)
        colours = _colours(trace.marker, len(at))
        for dx in range(DOT):
            for dy in range(DOT):
                x, y = place[:, 0] + dx, place[:, 1] + dy
                seen = (x >= 0) & (x < SIDE) & (y >= 0) & (y < SIDE)
                image[y[seen], x[seen]] = colours[seen]
    return image


def _colours(marker: Any, count: int) -> Image:
    if isinstance(marker.color, str):
        return np.tile(_rgb(marker.color), (count, 1))
    return _coloured(np.asarray(marker.color, np.float64), marker.cmin, marker.cmax, marker.colorscale)


def _coloured(values: NDArray[np.float64], low: float, high: float, scale: Sequence[tuple[float, str]]) -> Image:
    """Return the colours of numbers on a scale, white for those that are not finite."""
    share = np.clip((values - low) / ((high - low) or 1.0), 0, 1)
    stops, colours = [stop for stop, _ in scale], np.stack([_rgb(colour) for _, colour in scale])
    channels = [np.interp(np.nan_to_num(share), stops, colours[:, channel]) for channel in range(3)]
    return np.where(np.isfinite(values)[..., None], np.stack(channels, axis=-1), WHITE).astype(np.uint8)


def _rgb(colour: str) -> Image:
    return np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)], np.uint8)
