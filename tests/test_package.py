"""The public names, and the direction of imports."""

import ast
import inspect
import pathlib

import unixgrad_jax as ux

PUBLIC = {
    "Batched",
    "Birkhoff",
    "Box",
    "CappedSimplex",
    "ElasticNet",
    "EntropicBox",
    "EntropicL1Ball",
    "EntropicSimplex",
    "EntropicSpectrahedron",
    "FromProjection",
    "Geometry",
    "GroupBall",
    "GroupNorm",
    "L1Ball",
    "L1Norm",
    "L2Ball",
    "MonotoneBox",
    "NuclearBall",
    "NuclearNorm",
    "PNormBall",
    "Penalized",
    "Penalty",
    "Product",
    "Run",
    "ShiftedEntropySimplex",
    "Simplex",
    "Solution",
    "Spectrahedron",
    "SpectralBall",
    "SquaredL2Norm",
    "Status",
    "StepInfo",
    "TransportPolytope",
    "Unconstrained",
    "UniXGradState",
    "accelegrad",
    "adagrad_norm",
    "amsgrad",
    "axgd",
    "extragradient",
    "mirror_prox",
    "optimistic_mirror_descent",
    "projected",
    "universal_mirror_prox",
    "datasets",
    "eval_params",
    "frank_wolfe_gap",
    "minibatches",
    "minimize",
    "progress_bar",
    "solve",
    "unixgrad",
}

LAYERS = [
    ["_types"],
    ["_validation", "_sums", "_packed"],
    ["_trees"],
    ["geometries", "datasets"],
    [
        "_template",
        "_certificates",
        "_minibatches",
        "_arguments",
        "_implicit",
        "_progress",
        "_status",
    ],
    ["methods", "_evaluation"],
    ["_eval_params", "_search_state"],
    ["_spectral", "_averaged"],
    ["_search"],
    ["_loops"],
    ["_solve", "_minimize"],
    ["_svm", "__init__"],
    ["_svm_report"],
    ["__main__"],
]

ROOT = pathlib.Path(ux.__file__).parent


def test_the_public_names_are_these_and_documented() -> None:
    assert set(ux.__all__) == PUBLIC
    for name in PUBLIC:
        assert inspect.getdoc(getattr(ux, name)), name
    assert (ROOT / "py.typed").exists()


def imported_parts(path: pathlib.Path) -> set[str]:
    """Return the top-level parts of the package that a file imports."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.startswith("unixgrad_jax")
        ):
            inner = node.module.split(".")[1:]
            parts |= {inner[0]} if inner else {alias.name for alias in node.names}
    return parts


def test_imports_point_one_way() -> None:
    rank = {part: level for level, parts in enumerate(LAYERS) for part in parts}
    for path in ROOT.rglob("*.py"):
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for part in imported_parts(path) - {own}:
            assert rank[part] < rank[own], f"{path.name} imports {part}"


def test_nothing_private_of_jax_or_optax_is_used() -> None:
    for path in ROOT.rglob("*.py"):
        assert "._src" not in path.read_text(encoding="utf-8"), path
