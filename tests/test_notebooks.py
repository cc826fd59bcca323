"""Every notebook runs from top to bottom, and its own asserts hold."""

import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

from tests.sampling import by_default

NOTEBOOKS = sorted((pathlib.Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


LONG = {"constrained_layer", "paper_convergence", "paper_svm", "adaptivity", "geometry"}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "path",
    by_default([path for path in NOTEBOOKS if path.stem not in LONG], NOTEBOOKS),
    ids=lambda path: path.stem,
)
def test_notebook_runs(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert "assert" in code[-1]
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()


def test_there_is_a_quickstart() -> None:
    assert "quickstart" in {path.stem for path in NOTEBOOKS}
