"""Timing of compiled functions side by side, and tables of the results."""

import json
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax


def seconds(function: Callable[..., object], *args: object, calls: int = 1) -> float:
    """Return the mean time of a call, all calls waited for."""
    start = time.perf_counter()
    for _ in range(calls):
        jax.block_until_ready(function(*args))
    return (time.perf_counter() - start) / calls


def side_by_side(
    ours: Callable[..., object],
    peer: Callable[..., object],
    *args: object,
    repeats: int,
    calls: int,
) -> tuple[float, float, float]:
    """Return the median times of both, and the median of ours/peer over alternating runs."""
    seconds(ours, *args)
    seconds(peer, *args)
    pairs = [
        (seconds(ours, *args, calls=calls), seconds(peer, *args, calls=calls))
        for _ in range(repeats)
    ]
    return (
        statistics.median(pair[0] for pair in pairs),
        statistics.median(pair[1] for pair in pairs),
        statistics.median(pair[0] / pair[1] for pair in pairs),
    )


def show(rows: Sequence[dict[str, Any]], output: pathlib.Path | None) -> None:
    """Print rows as a table, and write them as JSON where a file is named."""
    cells = [[_text(value) for value in row.values()] for row in rows]
    heads = list(rows[0])
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(heads))]
    for line in [heads, *cells]:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
    if output:
        output.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _text(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
