"""Data for classification problems: one bundled set, and a reader of LIBSVM files."""

from unixgrad_jax.datasets._breast_cancer import breast_cancer
from unixgrad_jax.datasets._libsvm import Dataset, load_libsvm

__all__ = ["Dataset", "breast_cancer", "load_libsvm"]
