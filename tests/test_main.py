"""The command `python -m unixgrad_jax`."""

import pathlib
import re
import subprocess
import sys

import pytest

from unixgrad_jax.__main__ import main
from unixgrad_jax._svm import METHODS


def write(path: pathlib.Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_main_job_prints_progress_and_a_table_and_saves_a_plot(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["--steps", "4000", "--output", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert status == 0
    assert printed.count("mean objective") >= 10
    number = r" +([\d.]+)%?"
    rows = re.findall(rf"^ +(\d|mean){number * 4} +8,000(?: +[\d.]+)?$", printed, re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5", "mean"]
    _, objective, gap, train, test = map(float, ("0", *rows[-1][1:]))
    assert 0.1 < objective < 0.13
    assert 0 < gap < 0.05
    assert train > 94
    assert test > 94
    assert (tmp_path / "out" / "convergence.png").stat().st_size > 10_000


def test_other_files_and_settings_are_taken(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{2 + 2 * (i % 2)} 1:{1 if i % 2 else -1} 2:{i % 5}\n" for i in range(40))
    data = write(tmp_path / "two.txt", rows)
    options = [
        "--steps",
        "300",
        "--radius",
        "5",
        "--regularization",
        "0",
        "--batch-size",
        "3",
        "--seed",
        "7",
    ]
    assert main(["--data", data, *options, "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "32 training and 8 test rows, 2 features" in printed
    assert "λ = 0, ‖w‖₂ ≤ 5; 300 steps of two gradients, batches of 3" in printed
    assert re.search(r"mean .* 100\.0% +100\.0% +600 +[\d.]+\n", printed)


@pytest.mark.slow
def test_all_methods_stand_side_by_side(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--method", "all", "--steps", "1000", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    rows = re.findall(
        r"^(\w+) .* ([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)% +[\d.]+% +[\d.]+$", printed, re.M
    )
    assert [row[0] for row in rows] == list(METHODS)
    for _, objective, _, gap, accuracy in rows:
        assert 0.1 < float(objective) < 0.2
        assert 0 <= float(gap) < 1
        assert float(accuracy) > 90
    assert "Every method saw 2,000 minibatch gradients" in printed
    assert (tmp_path / "comparison.png").stat().st_size > 10_000


@pytest.mark.slow
def test_one_other_method_has_a_table_of_its_own(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--method", "accelegrad", "--steps", "500", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("mean objective") >= 10
    assert re.search(r"mean +0\.1\d+ .* 1,000 +[\d.]+\n", printed)
    assert (tmp_path / "convergence.png").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n-1 1:x\n", ":2: value 'x' is not a number"),
        ("1 1:1\n-1 1:1\n3 1:1\n", ":3: label 3 is the third kind"),
        ("1 1:1\n1 1:1\n", ": every label is 1: two classes are needed"),
        ("1 1:1\n-1 1:1\n", ": 2 rows are too few"),
        ("1\n-1\n1\n-1\n1\n-1\n", ": no row has a feature"),
        ("", ": no rows"),
    ],
)
def test_bad_files_get_one_line_and_status_2(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    data = write(tmp_path / "bad.txt", text)
    assert main(["--data", data, "--output", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "bad.txt" + message in printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        "--radius -1",
        "--radius nan",
        "--steps 0",
        "--steps x",
        "--batch-size 0",
        "--regularization -1",
    ],
)
def test_bad_options_are_named(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    assert stopped.value.code == 2
    option, value = arguments.split()
    assert re.search(f"argument {option}: '{value}' is not a", capsys.readouterr().err)


def test_unknown_methods_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--method", "newton"])
    assert stopped.value.code == 2
    assert re.search(
        r"argument --method: invalid choice: 'newton' .*unixgrad", capsys.readouterr().err
    )


def test_the_module_runs_as_a_command_without_a_traceback() -> None:
    command = [sys.executable, "-m", "unixgrad_jax", "--data", "missing.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "python -m unixgrad_jax: error: missing.txt: No such file or directory\n"
