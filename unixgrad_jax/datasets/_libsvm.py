"""Reader of the LIBSVM text format."""

import os
import pathlib
from typing import NamedTuple

import numpy as np

MAX_ENTRIES = 2**28
"""The largest dense table that is built, 2 GiB of float64."""


class Dataset(NamedTuple):
    """Features of shape (rows, columns) and labels of shape (rows,), float64 NumPy arrays."""

    features: np.ndarray
    labels: np.ndarray


def load_libsvm(path: str | os.PathLike) -> Dataset:
    """Read a file in LIBSVM format into dense arrays.

    Each line is `label index:value index:value ...` with ascending indices from 1; what is left out
    is 0. Blank lines are skipped, and so is what follows a `#`.

    Args:
        path: the file, UTF-8 text.

    Returns:
        The features, one column for each index up to the largest, and the labels as they stand.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it has no rows, is no text, or breaks the format; the message names the file,
            and the line where there is one.
    """
    labels, entries, _ = _read(pathlib.Path(path))
    return _dense(labels, entries)


def load_binary_libsvm(path: str | os.PathLike) -> Dataset:
    """Read a two-class file in LIBSVM format, the larger of its two labels as +1, the other as −1.

    Raises:
        OSError, ValueError: as `load_libsvm` does, and where the labels are not of two kinds.
    """
    path = pathlib.Path(path)
    labels, entries, lines = _read(path)
    kinds: list[float] = []
    for label, line in zip(labels, lines, strict=True):
        if label not in kinds:
            kinds.append(label)
        if len(kinds) > 2:
            raise ValueError(
                f"{path}:{line}: label {label:g} is the third kind, after {kinds[0]:g} and "
                f"{kinds[1]:g}: two classes are needed"
            )
    if len(kinds) < 2:
        raise ValueError(f"{path}: every label is {kinds[0]:g}: two classes are needed")
    features, values = _dense(labels, entries)
    return Dataset(features, np.where(values == max(kinds), 1.0, -1.0))


def _read(path: pathlib.Path) -> tuple[list[float], list[list[tuple[int, float]]], list[int]]:
    """Return the label, the (index, value) pairs and the line number of each row."""
    labels: list[float] = []
    lines: list[int] = []
    entries: list[list[tuple[int, float]]] = []
    width = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                tokens = line.split("#", 1)[0].split()
                if not tokens:
                    continue
                try:
                    labels.append(_number(tokens[0], "label"))
                    lines.append(number)
                    entries.append(_entries(tokens[1:]))
                    width = max([width, *(index for index, _ in entries[-1][-1:])])
                    if width * len(labels) > MAX_ENTRIES:
                        raise ValueError(
                            f"a dense table of {len(labels)} rows and {width} columns is too large"
                        )
                except ValueError as error:
                    raise ValueError(f"{path}:{number}: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not a text file in UTF-8") from None
    if not labels:
        raise ValueError(f"{path}: no rows")
    return labels, entries, lines


def _dense(labels: list[float], entries: list[list[tuple[int, float]]]) -> Dataset:
    width = max((pairs[-1][0] for pairs in entries if pairs), default=0)
    features = np.zeros((len(labels), width))
    for row, pairs in zip(features, entries, strict=True):
        for index, value in pairs:
            row[index - 1] = value
    return Dataset(features, np.array(labels))


def _entries(tokens: list[str]) -> list[tuple[int, float]]:
    pairs: list[tuple[int, float]] = []
    for token in tokens:
        index_text, colon, value_text = token.partition(":")
        if not colon:
            raise ValueError(f"{token!r} is not of the form index:value")
        if not (index_text.isascii() and index_text.isdigit()) or int(index_text) < 1:
            raise ValueError(f"index {index_text!r} is not a positive integer")
        index = int(index_text)
        if pairs and index <= pairs[-1][0]:
            raise ValueError(f"index {index} does not ascend from {pairs[-1][0]}")
        pairs.append((index, _number(value_text, "value")))
    return pairs


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{what} {text!r} is not a number") from None
    if not np.isfinite(value):
        raise ValueError(f"{what} {text!r} is not finite")
    return value
