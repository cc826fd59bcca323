"""The Wisconsin breast cancer data, as the LIBSVM collection scales it."""

import importlib.resources

import numpy as np

from unixgrad_jax.datasets._libsvm import Dataset


def breast_cancer() -> Dataset:
    """Return the scaled "breast-cancer" data of the LIBSVM collection.

    Rows are the 683 complete ones, in order, of "Breast Cancer Wisconsin (Original)" (W. H.
    Wolberg; UCI Machine Learning Repository, doi:10.24432/C5HP4Z, CC BY 4.0). Features are the
    sample number and the nine cytological scores, each scaled to [−1, 1] by its column's least
    and largest value.

    Returns:
        Features of shape (683, 10) and labels of shape (683,), +1 for the 239 malignant and −1 for
        the 444 benign samples, both float64 NumPy arrays.

    Example:
        >>> import unixgrad_jax as ux
        >>> features, labels = ux.datasets.breast_cancer()
        >>> features.shape, float(features.min()), float(features.max()), int((labels > 0).sum())
        ((683, 10), -1.0, 1.0, 239)
    """
    source = importlib.resources.files("unixgrad_jax.datasets") / "breast_cancer.csv"
    with source.open(encoding="utf-8") as file:
        table = np.loadtxt(file, delimiter=",", comments="#", skiprows=4)
    raw, classes = table[:, :-1], table[:, -1]
    low, high = raw.min(axis=0), raw.max(axis=0)
    return Dataset(2 * (raw - low) / (high - low) - 1, np.where(classes == 4, 1.0, -1.0))
