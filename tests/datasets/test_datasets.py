"""The bundled data is the published file; broken files are refused by name and line."""

import hashlib
import pathlib

import numpy as np
import pytest

import unixgrad_jax as ux


def test_the_bundled_data_is_the_libsvm_file() -> None:
    features, labels = ux.datasets.breast_cancer()
    assert features.shape == (683, 10)
    assert (labels == 1).sum() == 239
    assert (labels == -1).sum() == 444
    text = "".join(
        f"{4 if label > 0 else 2} "
        + "".join(f"{i}:{value:g} " for i, value in enumerate(row, 1))
        + "\n"
        for row, label in zip(features, labels, strict=True)
    )
    digest = "3c90cd8f884810a0ff2eaf2cc7aabf09073f33c2dfcf113d826a13ca60b257ad"
    assert hashlib.sha256(text.encode()).hexdigest() == digest


def test_a_written_file_is_read_back(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("# made by hand\n+1 1:0.5 3:-2e1 # tail\r\n\n-1 2:7\n2.5\n", encoding="utf-8")
    features, labels = ux.datasets.load_libsvm(path)
    np.testing.assert_array_equal(labels, [1, -1, 2.5])
    np.testing.assert_array_equal(features, [[0.5, 0, -20], [0, 7, 0], [0, 0, 0]])
    np.testing.assert_array_equal(ux.datasets.load_libsvm(str(path)).labels, labels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\nx 1:2\n", r":2: label 'x' is not a number"),
        ("1 1:2\n\n1 1:y\n", r":3: value 'y' is not a number"),
        ("1 1:nan\n", r":1: value 'nan' is not finite"),
        ("inf 1:1\n", r":1: label 'inf' is not finite"),
        ("1 1\n", r":1: '1' is not of the form index:value"),
        ("1 0:1\n", r":1: index '0' is not a positive integer"),
        ("1 -1:1\n", r":1: index '-1' is not a positive integer"),
        ("1 a:1\n", r":1: index 'a' is not a positive integer"),
        ("1 2:1 2:1\n", r":1: index 2 does not ascend from 2"),
        ("1 1:1\n1 999999999999:1\n", r":2: a dense table of 2 rows and 999999999999 columns"),
        ("", r": no rows"),
        ("# nothing\n", r": no rows"),
    ],
)
def test_broken_files_are_named_with_their_line(
    tmp_path: pathlib.Path, text: str, message: str
) -> None:
    path = tmp_path / "broken.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"broken\.txt" + message):
        ux.datasets.load_libsvm(path)


def test_binary_files_and_missing_files_are_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "image.bin"
    path.write_bytes(bytes([0x89, 0xFF, 0xFE, 0x00] * 9))
    with pytest.raises(ValueError, match=r"image\.bin: not a text file"):
        ux.datasets.load_libsvm(path)
    with pytest.raises(FileNotFoundError):
        ux.datasets.load_libsvm(tmp_path / "missing")
