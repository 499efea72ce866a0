"""UMAP's layout on several threads, deterministic for a seed whatever their number.

umap-learn optimises on one thread as soon as a seed is given, since its threads race for the same points. The same
stochastic gradient descent (McInnes et al. 2018: same loss, learning rate, edge schedule and number of negative
samples) is deterministic here because what a thread reads never depends on another one. Points are divided into
``PARTS``, each of which moves its own points at once; the moves of points of other parts are added when all parts
have finished one of the ``CHUNKS`` of an epoch. Negative samples come from a hash of seed, epoch and edge, and are read
as the chunk found them; in a table of one part, as they are, as in umap-learn.

Threads are Python's, as the compiled code releases the interpreter: numba's own thread pools end the process when two
threads use them, or after a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit, uint32, uint64
from numpy.typing import NDArray

PARTS, CHUNKS = 4, 8
"""Number of parts that are optimised at the same time, and of exchanges between them in an epoch."""

SMALL = 4096
"""Number of points below which there is a single part, as waiting for threads would take longer."""

RATE = 5
"""Negative samples per edge, umap-learn's default."""

Points = NDArray[np.float32]
Epoch = Callable[[int, Points], None]
"""Called after each epoch with its number, from 1, and the coordinates [n, dims], which change afterwards."""


def _polynomial(function: Callable[[NDArray[Any]], NDArray[Any]], start: float, degree: int) -> tuple[np.float32, ...]:
    """Return coefficients, highest first, of a polynomial that fits a function on [start, start + 1]."""
    from numpy.polynomial import Chebyshev, Polynomial

    x = np.linspace(0, 1, 2001)
    fitted = Chebyshev.fit(x, function(x + start), degree).convert(kind=Polynomial)
    return tuple(np.float32(value) for value in fitted.coef[::-1])


LOG2 = _polynomial(np.log2, 1.0, 6)
EXP2 = _polynomial(np.exp2, 0.0, 5)

ZERO, ONE, CLIP = np.float32(0), np.float32(1), np.float32(4)
NEAREST = np.float32(0.001)
"""Added to squared distances of negative samples, as in umap-learn."""
SAME = np.float32(1e-12)
"""Squared distance below which two points coincide."""


@njit(fastmath=True)
def _power(base: Any, exponent: Any) -> Any:
    """Return ``base ** exponent`` for a float32 from 1e-12 to 1e12 and an exponent from 0 to 3, within 2e-5 of it."""
    bits = np.float32(base).view(np.int32)
    mantissa = np.int32((bits & 0x7FFFFF) | 0x3F800000).view(np.float32) - ONE
    # Written out, since an index into a tuple would be looked up in memory.
    log = LOG2[0] * mantissa + LOG2[1]
    log = (((log * mantissa + LOG2[2]) * mantissa + LOG2[3]) * mantissa + LOG2[4]) * mantissa + LOG2[5]
    log = log * mantissa + LOG2[6]
    wanted = exponent * (np.float32((bits >> 23) - 127) + log)
    whole = np.floor(wanted)
    rest = wanted - whole
    value = ((EXP2[0] * rest + EXP2[1]) * rest + EXP2[2]) * rest + EXP2[3]
    value = (value * rest + EXP2[4]) * rest + EXP2[5]
    return value * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


@njit(fastmath=True)
def _clipped(value: Any) -> Any:
    return min(max(value, -CLIP), CLIP)


@njit(fastmath=True)
def _pull(x: Any, y: Any, z: Any, a: Any, b: Any) -> Any:
    """Return the factor of the attraction along a difference of points."""
    square = x * x + y * y + z * z
    if square < SAME:
        return ZERO
    power = _power(square, b)
    return np.float32(-2) * a * b * power / (square * (a * power + ONE))


@njit(fastmath=True)
def _push(x: Any, y: Any, z: Any, a: Any, b: Any) -> Any:
    """Return the factor of the repulsion along a difference of points."""
    square = x * x + y * y + z * z
    return np.float32(2) * b / ((NEAREST + square) * (a * _power(square + SAME, b) + ONE))


@njit(fastmath=True)
def _hashed(value: Any) -> Any:
    """Return a well-mixed hash of 32 bits (Wellons 2018, lowbias32)."""
    value = uint32(value ^ (value >> uint32(16)))
    value = uint32(value * uint32(0x7FEB352D))
    value = uint32(value ^ (value >> uint32(15)))
    value = uint32(value * uint32(0x846CA68B))
    return uint32(value ^ (value >> uint32(16)))


@njit(fastmath=True)
def _depth(points: Any, row: Any) -> Any:
    """Return a point's third coordinate, or 0 if there are only two."""
    return points[row, 2] if points.shape[1] == 3 else ZERO


@njit(fastmath=True)
def _repelled(start: Any, count: Any, seen: Any, own: Any, place: Any, curve: Any) -> Any:
    """Return the sum of the moves of a point at ``place`` away from ``count`` random ones, drawn by ``start``."""
    (x, y, z), (a, b, _) = place, curve
    rows = uint64(seen.shape[0])
    sum_x, sum_y, sum_z = ZERO, ZERO, ZERO
    for draw in range(count):
        number = _hashed(uint32(start + uint32(draw) * uint32(0x9E3779B9)))
        other = np.int64((uint64(number) * rows) >> uint64(32))
        dx, dy, dz = x - seen[other, 0], y - seen[other, 1], z - _depth(seen, other)
        factor = ZERO if other == own else _push(dx, dy, dz, a, b)
        sum_x += _clipped(factor * dx)
        sum_y += _clipped(factor * dy)
        sum_z += _clipped(factor * dz)
    return sum_x, sum_y, sum_z


@njit(nogil=True, fastmath=True)
def _optimise(
    state: Any,  # points, seen, moves [n, dims]: see below
    part: Any,  # first and last row of the part, first and last row of the chunk
    edges: Any,  # starts [n + 1], tails [m], periods [m]
    due: Any,  # [m, 2] float32: epochs of the next sample and of the next negative sample of each edge
    step: Any,  # epoch, seed
    curve: Any,  # a, b, learning rate
) -> None:
    """Move the points of a chunk by the edges that are due.

    Of ``points``, only those of this part are read and moved. ``seen`` are all points as the chunk found them, or
    ``points`` themselves if there are no other parts; ``moves`` of points of other parts are added up.
    """
    points, seen, moves = state
    starts, tails, periods = edges
    low, high, first, last = part
    epoch, seed = step
    a, b, rate = curve
    solid = points.shape[1] == 3
    for head in range(first, last):
        x, y, z = points[head, 0], points[head, 1], _depth(points, head)
        for edge in range(starts[head], starts[head + 1]):
            if due[edge, 0] > epoch:
                continue
            tail = tails[edge]
            inside = low <= tail < high
            if inside:
                dx, dy, dz = x - points[tail, 0], y - points[tail, 1], z - _depth(points, tail)
            else:
                dx, dy = x - seen[tail, 0] - moves[tail, 0], y - seen[tail, 1] - moves[tail, 1]
                dz = z - _depth(seen, tail) - _depth(moves, tail)
            factor = _pull(dx, dy, dz, a, b)
            dx, dy, dz = _clipped(factor * dx) * rate, _clipped(factor * dy) * rate, _clipped(factor * dz) * rate
            moved = points if inside else moves
            moved[tail, 0] -= dx
            moved[tail, 1] -= dy
            if solid:
                moved[tail, 2] -= dz
            between = periods[edge] / np.float32(RATE)
            count = np.int32((epoch - due[edge, 1]) / between)
            start = _hashed(uint32(_hashed(uint32(seed) + uint32(epoch)) + uint32(edge)))
            far_x, far_y, far_z = _repelled(start, count, seen, head, (x + dx, y + dy, z + dz), curve)
            x, y, z = x + dx + far_x * rate, y + dy + far_y * rate, z + dz + far_z * rate
            due[edge, 0] += periods[edge]
            due[edge, 1] += np.float32(count) * between
        points[head, 0], points[head, 1] = x, y
        if solid:
            points[head, 2] = z


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _boxed(start: NDArray[Any]) -> Points:
    """Return coordinates scaled to 0 to 10 along each dimension, as umap-learn does before it optimises."""
    low, high = start.min(axis=0), start.max(axis=0)
    width = np.where(high > low, high - low, 1)
    return np.ascontiguousarray(10 * (start - low) / width, np.float32)


def _scheduled(graph: Any, epochs: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return the start of each head's edges [n + 1], their tails [m] and the epochs between two samples of each [m].

    Edges that are due in none of the epochs are left out, as in umap-learn.
    """
    graph = graph.tocsr(copy=True)
    graph.sum_duplicates()
    most = graph.data.max(initial=0)
    graph.data[graph.data < most / epochs] = 0
    graph.eliminate_zeros()
    periods = (most / graph.data).astype(np.float32)
    return graph.indptr.astype(np.int64), graph.indices.astype(np.int32), periods


def optimised_layout(
    graph: Any,
    start: NDArray[Any],
    *,
    epochs: int,
    curve: tuple[float, float],
    seed: int,
    each: Epoch | None = None,
    workers: int | None = None,
) -> Points:
    """Optimise a layout by UMAP's stochastic gradient descent.

    Args:
        graph: Symmetric fuzzy simplicial set, a scipy sparse matrix [n, n] of edge weights.
        start: Initial coordinates [n, 2 or 3].
        epochs: Number of epochs.
        curve: Parameters a and b of the similarity 1 / (1 + a x^2b) of points at distance x, from ``min_dist``.
        seed: Random seed of the negative samples.
        each: Called after each epoch; an exception that it raises ends the optimisation.
        workers: Number of threads, by default that of processors. The result does not depend on it.

    Returns:
        Coordinates [n, 2 or 3].
    """
    edges = _scheduled(graph, epochs)
    due = np.stack([edges[2], edges[2] / np.float32(RATE)], axis=1)
    points = _boxed(np.asarray(start, np.float64))
    parts, chunks = (PARTS, CHUNKS) if len(points) >= SMALL else (1, 1)
    cuts = np.searchsorted(edges[0], np.linspace(0, edges[0][-1], parts * chunks + 1))
    cuts[0], cuts[-1] = 0, len(points)
    seen = points if parts == 1 else np.empty_like(points)
    moves = np.zeros((parts, *points.shape), np.float32)
    seed = int(np.random.SeedSequence(seed).generate_state(1)[0])

    def run(part: int, chunk: int, epoch: int, rate: float) -> None:
        place = part * chunks
        bounds = (cuts[place], cuts[place + chunks], cuts[place + chunk], cuts[place + chunk + 1])
        forces = (np.float32(curve[0]), np.float32(curve[1]), np.float32(rate))
        step = (np.float32(epoch), np.int64(seed))
        _optimise((points, seen, moves[part]), bounds, edges, due, step, forces)

    rate = 1.0
    with ThreadPoolExecutor(min(parts, workers or processors())) as pool:
        for epoch in range(epochs):
            for chunk in range(chunks):
                if parts == 1:
                    run(0, 0, epoch, rate)
                    continue
                np.copyto(seen, points)
                for done in [pool.submit(run, part, chunk, epoch, rate) for part in range(parts)]:
                    done.result()
                for move in moves:
                    points += move
                moves[:] = 0
            rate = 1.0 - epoch / epochs
            if each is not None:
                each(epoch + 1, points)
    return points
