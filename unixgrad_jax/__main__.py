"""The command `python -m unixgrad_jax`: train the paper's SVM and print what was proven."""

import argparse
import importlib.util
import math
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from unixgrad_jax import _svm, _svm_report
from unixgrad_jax.datasets import Dataset, breast_cancer
from unixgrad_jax.datasets._libsvm import load_binary_libsvm


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 for arguments or files that are wrong."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        data = _load(options.data)
        options.output.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        print(f"{parser.prog}: error: {_message(error)}", file=sys.stderr)
        return 2
    settings = _svm.Settings(
        radius=options.radius,
        regularization=options.regularization,
        steps=options.steps,
        batch_size=options.batch_size,
        seed=options.seed,
    )
    split = _svm.split(data, settings.seed)
    print(_svm_report.headline(split, settings, str(options.data or "breast-cancer (bundled)")))
    plots = importlib.util.find_spec("matplotlib") is not None
    if options.method == "all":
        reports = {}
        for name in _svm.METHODS:
            print(f"  {name}", flush=True)
            reports[name] = _svm.train(split, settings, name, None)
        print(_svm_report.comparison(reports, settings))
        path = plots and _svm_report.plot_comparison(reports, settings, options.output)
    else:
        report = _svm.train(split, settings, options.method, sys.stdout)
        print(_svm_report.table(report, settings))
        path = plots and _svm_report.plot(report, settings, options.method, options.output)
    if path:
        print(f"Convergence plot: {path}")
    else:
        print("No plot: matplotlib is not installed (it is in the extra [notebooks]).")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m unixgrad_jax",
        description="Train a linear SVM, mean squared hinge + (λ/2)‖w‖² in an ℓ2 ball, from five "
        "random starts at once.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--data", type=pathlib.Path, metavar="FILE", help="two-class data in LIBSVM format"
    )
    parser.add_argument(
        "--method",
        choices=(*_svm.METHODS, "all"),
        default="unixgrad",
        help="a method of the paper, or all of them side by side",
    )
    parser.add_argument("--radius", type=_positive, default=1.0, help="radius of the ball")
    parser.add_argument("--regularization", type=_not_negative, default=1 / 683, help="λ")
    parser.add_argument(
        "--steps", type=_count, default=20_000, help="iterations, two gradients each"
    )
    parser.add_argument("--batch-size", type=_count, default=5, help="rows a gradient sees")
    parser.add_argument(
        "--seed", type=_seed, default=0, help="of the split, the starts, the batches"
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("unixgrad_output"),
        metavar="DIR",
        help="where the plot goes",
    )
    return parser


def _load(path: pathlib.Path | None) -> Dataset:
    data = breast_cancer() if path is None else load_binary_libsvm(path)
    if len(data.labels) < 5:
        raise ValueError(f"{path}: {len(data.labels)} rows are too few to split 80/20")
    if not data.features.shape[1]:
        raise ValueError(f"{path}: no row has a feature")
    return data


def _message(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _within(
    convert: Callable[[str], float], least: float, most: float, wanted: str
) -> Callable[[str], Any]:
    """Return a reader of an argument that must be a number in [least, most]."""

    def read(text: str) -> float:
        try:
            value = convert(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
        return value

    return read


_positive = _within(float, sys.float_info.min, sys.float_info.max, "a positive number")
_not_negative = _within(float, 0, sys.float_info.max, "a non-negative number")
_count = _within(int, 1, 2**31 - 1, "an integer from 1 to 2³¹ − 1")
_seed = _within(int, 0, 2**32 - 1, "an integer from 0 to 2³² − 1")


if __name__ == "__main__":
    sys.exit(main())
