"""The problems that the methods are compared on, and the optimum of each, found at run time.

Everything here is float64: switch it on (`jax.config.update("jax_enable_x64", True)`) before the
first problem is made. Importing computes nothing.
"""

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import unixgrad_jax as ux

Array = jax.Array


class Problem(NamedTuple):
    """Minimize `objective(x, *args)` over a Euclidean set, from a start in it.

    Attributes:
        name: as on the command line.
        objective: a convex function.
        geometry: the set.
        start: x_0, one array.
        args: what else the objective takes.
        smoothness: L, the largest eigenvalue that a Hessian can have; None where f has kinks.
        exact: finds the optimum of a problem with kinks.
    """

    name: str
    objective: Callable[..., Array]
    geometry: ux.Geometry
    start: Array
    args: tuple[Array, ...]
    smoothness: float | None
    exact: Callable[["Problem"], float] | None = None

    @property
    def smooth(self) -> bool:
        return self.smoothness is not None

    def value(self, point: Array) -> Array:
        return self.objective(point, *self.args)


def problems(names: Iterable[str] | None = None) -> list[Problem]:
    """Return the problems of these names, all of `BUILDERS` by default, in order."""
    return [BUILDERS[name]()._replace(name=name) for name in (BUILDERS if names is None else names)]


def optimum(problem: Problem) -> float:
    """Return f*, to about 1e-12 of f(x_0) − f* where f is smooth and 1e-10 where it is not.

    Smooth problems are solved by FISTA told L with adaptive restart, until a Frank-Wolfe gap says
    so; those with kinks by a solver of linear or conic programs.
    """
    if problem.exact is not None:
        return problem.exact(problem)
    if problem.smoothness is None:
        raise ValueError(f"{problem.name} has neither a smoothness constant nor an exact solver.")
    value, gap = _by_fista(
        problem.objective, problem.geometry, problem.start, problem.args, problem.smoothness
    )
    scale = float(problem.value(problem.start) - value)
    if not gap <= 1e-11 * scale:
        raise RuntimeError(f"{problem.name}: the optimum is only known to {gap / scale:.1e}.")
    return float(value)


@functools.partial(jax.jit, static_argnums=0)
def _by_fista(
    objective: Callable[..., Array],
    geometry: ux.Geometry,
    start: Array,
    args: tuple[Array, ...],
    smoothness: Array,
) -> tuple[Array, Array]:
    """Return the best value, and how far above the optimum it can be."""
    both = jax.value_and_grad(objective)
    value_at_start, _ = both(start, *args)

    def unfinished(carry: tuple[Array, ...]) -> Array:
        *_, best, lower, step = carry
        return (best - lower > 1e-12 * (value_at_start - best)) & (step < 300_000)

    def advance(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        x, y, t, best, lower, step = carry
        _, gradient = both(y, *args)
        following = geometry.project(y - gradient / smoothness)
        value, gradient = both(following, *args)
        return (
            following,
            *extrapolate(x, y, t, following, restarts=True),
            jnp.minimum(best, value),
            jnp.maximum(lower, value - ux.frank_wolfe_gap(geometry, following, gradient)),
            step + 1,
        )

    first = (start, start, jnp.ones(()), value_at_start, -jnp.inf * jnp.ones(()), jnp.zeros(()))
    *_, best, lower, _ = lax.while_loop(unfinished, advance, first)
    return best, best - lower


def extrapolate(
    x: Array, y: Array, t: Array, following: Array, restarts: bool
) -> tuple[Array, Array]:
    """Return the next y and t of FISTA, which went from x to `following` by a step from y.

        t⁺ = (1 + √(1 + 4t²))/2,  y⁺ = x⁺ + (t − 1)/t⁺·(x⁺ − x)

    (Beck and Teboulle, SIAM J. Imaging Sci. 2009, eq. 4.2–4.3); with restarts t⁺ = 1 and y⁺ = x⁺
    where ⟨y − x⁺, x⁺ − x⟩ > 0 (O'Donoghue and Candès, Found. Comput. Math. 2015).
    """
    next_t = (1 + jnp.sqrt(1 + 4 * t**2)) / 2
    restart = restarts & (jnp.vdot(y - following, following - x) > 0)
    momentum = jnp.where(restart, 0.0, (t - 1) / next_t)
    return following + momentum * (following - x), jnp.where(restart, 1.0, next_t)


def least_squares(x: Array, A: Array, b: Array) -> Array:
    return jnp.mean((A @ x - b) ** 2) / 2


def absolute_errors(x: Array, A: Array, b: Array) -> Array:
    return jnp.mean(jnp.abs(A @ x - b))


def logistic(x: Array, A: Array, labels: Array) -> Array:
    return jnp.mean(jax.nn.softplus(-labels * (A @ x)))


def mean_variance(x: Array, covariance: Array, mean: Array) -> Array:
    return 5 * x @ covariance @ x - mean @ x


def largest_entry(x: Array, A: Array) -> Array:
    return jnp.max(A @ x)


def observed_errors(X: Array, observed: Array, M: Array) -> Array:
    return jnp.sum(observed * (X - M) ** 2) / (2 * jnp.sum(observed))


def support_vectors(w: Array, X: Array, labels: Array) -> Array:
    """Return the objective of the paper's experiment, mean max(0, 1 − y·⟨x, w⟩)² + ‖w‖²/(2n)."""
    hinge = jnp.maximum(0, 1 - labels * (X @ w))
    return jnp.mean(hinge**2) + jnp.vdot(w, w) / (2 * labels.size)


def multinomial(W: Array, X: Array, one_hot: Array) -> Array:
    scores = X @ W
    return jnp.mean(jax.nn.logsumexp(scores, axis=1) - jnp.sum(scores * one_hot, axis=1))


def _keys() -> list[Array]:
    return list(jax.random.split(jax.random.PRNGKey(0), 5))


def _largest_eigenvalue(A: Array) -> float:
    """Return λ_max(AᵀA)/n, the smoothness of ½·mean (Ax − b)²."""
    return float(np.linalg.norm(np.asarray(A), 2)) ** 2 / A.shape[0]


def _regression() -> tuple[Array, Array, Array, Array]:
    """Return A, the same with columns from 1 to 1/100 (κ = 1e4 in AᵀA), x♮ and noise."""
    k1, k2, k3, _, _ = _keys()
    A = jax.random.normal(k1, (500, 100))
    scales = jnp.logspace(0, -2, 100)
    truth = jax.random.normal(k2, (100,))
    return A, A * scales[None], truth, jnp.sqrt(1e-3) * jax.random.normal(k3, (500,))


def _ball(share: float) -> Problem:
    A, _, truth, noise = _regression()
    ball = ux.L2Ball(share * jnp.linalg.norm(truth))
    args = (A, A @ truth + noise)
    return Problem("", least_squares, ball, jnp.zeros(100), args, _largest_eigenvalue(A))


def _ill_conditioned(share: float) -> Problem:
    _, A, truth, _ = _regression()
    ball = ux.L2Ball(share * jnp.linalg.norm(truth))
    return Problem("", least_squares, ball, jnp.zeros(100), (A, A @ truth), _largest_eigenvalue(A))


def _logistic() -> Problem:
    _, A, truth, _ = _regression()
    labels = jnp.sign(A @ truth + 0.5 * jax.random.normal(_keys()[3], (500,)))
    L = _largest_eigenvalue(A) / 4
    return Problem("", logistic, ux.L1Ball(10.0), jnp.zeros(100), (A, labels), L)


def _lasso() -> Problem:
    k1, k2, _, _, k5 = _keys()
    A = jax.random.normal(k5, (100, 400))
    truth = jnp.zeros(400).at[:10].set(3 * jax.random.normal(k1, (10,)))
    b = A @ truth + 0.1 * jax.random.normal(k2, (100,))
    ball = ux.L1Ball(0.8 * jnp.abs(truth).sum())
    return Problem("", least_squares, ball, jnp.zeros(400), (A, b), _largest_eigenvalue(A))


def _mean_variance() -> Problem:
    _, _, k3, k4, k5 = _keys()
    factors = jax.random.normal(k3, (300, 10))
    returns = 0.1 * factors @ jax.random.normal(k4, (10, 50))
    returns = returns + 0.05 * jax.random.normal(k5, (300, 50))
    args = (jnp.cov(returns, rowvar=False), returns.mean(axis=0))
    L = 10 * float(np.linalg.eigvalsh(np.asarray(args[0]))[-1])
    return Problem("", mean_variance, ux.Simplex(), jnp.full(50, 1 / 50), args, L)


def _simplex() -> Problem:
    keys = jax.random.split(jax.random.PRNGKey(1), 3)
    A = jax.random.normal(keys[0], (200, 1000))
    truth = jax.random.dirichlet(keys[1], jnp.full(1000, 0.02))
    b = A @ truth + 0.1 * jax.random.normal(keys[2], (200,))
    L = _largest_eigenvalue(A)
    return Problem("", least_squares, ux.Simplex(), jnp.full(1000, 1e-3), (A, b), L)


def _matrix_completion() -> Problem:
    keys = jax.random.split(jax.random.PRNGKey(2), 4)
    truth = jax.random.normal(keys[0], (30, 3)) @ jax.random.normal(keys[1], (3, 20))
    observed = jax.random.bernoulli(keys[2], 0.5, truth.shape).astype(truth.dtype)
    M = truth + 0.1 * jax.random.normal(keys[3], truth.shape)
    radius = 0.8 * float(np.linalg.norm(np.asarray(truth), "nuc"))
    L = 1 / float(observed.sum())
    start = jnp.zeros_like(truth)
    return Problem("", observed_errors, ux.NuclearBall(radius), start, (observed, M), L)


def _support_vectors() -> Problem:
    features, labels = (jnp.asarray(part) for part in ux.datasets.breast_cancer())
    L = 2 * _largest_eigenvalue(features) + 1 / labels.size
    start = jnp.zeros(features.shape[1])
    return Problem("", support_vectors, ux.L2Ball(1.0), start, (features, labels), L)


def _diabetes() -> Problem:
    from sklearn.datasets import load_diabetes

    features, target = map(np.asarray, load_diabetes(return_X_y=True))
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    target = (target - target.mean()) / target.std()
    radius = 0.5 * float(np.abs(np.linalg.lstsq(features, target)[0]).sum())
    A, b = jnp.asarray(features), jnp.asarray(target)
    start = jnp.zeros(A.shape[1])
    return Problem("", least_squares, ux.L1Ball(radius), start, (A, b), _largest_eigenvalue(A))


def _digits() -> Problem:
    from sklearn.datasets import load_digits

    images, digits = map(np.asarray, load_digits(return_X_y=True))
    X = jnp.asarray(images[:500] / 16.0)
    one_hot = jax.nn.one_hot(jnp.asarray(digits[:500]), 10, dtype=X.dtype)
    # diag(p) − ppᵀ ≼ ½·I, for probabilities p.
    L = _largest_eigenvalue(X) / 2
    return Problem("", multinomial, ux.L2Ball(5.0), jnp.zeros((64, 10)), (X, one_hot), L)


def _absolute_errors() -> Problem:
    keys = jax.random.split(jax.random.PRNGKey(3), 3)
    A = jax.random.normal(keys[0], (200, 50))
    truth = jax.random.normal(keys[1], (50,))
    b = A @ truth + jax.random.laplace(keys[2], (200,))
    ball = ux.L2Ball(0.8 * jnp.linalg.norm(truth))
    return Problem("", absolute_errors, ball, jnp.zeros(50), (A, b), None, _by_clarabel)


def _by_clarabel(problem: Problem) -> float:
    import cvxpy

    A, b = map(np.asarray, problem.args)
    ball = problem.geometry
    assert isinstance(ball, ux.L2Ball)
    x = cvxpy.Variable(A.shape[1])
    errors = cvxpy.norm1(A @ x - b) / len(b)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    program = cvxpy.Problem(cvxpy.Minimize(errors), [cvxpy.norm(x) <= float(ball.radius)])
    program.solve(solver=cvxpy.CLARABEL, **tight)
    return float(problem.value(ball.project(jnp.asarray(x.value))))


def _matrix_game() -> Problem:
    A = jax.random.normal(jax.random.PRNGKey(4), (60, 40))
    start = jnp.full(40, 1 / 40)
    return Problem("", largest_entry, ux.Simplex(), start, (A,), None, _by_simplex_method)


def _by_simplex_method(problem: Problem) -> float:
    """Solve min v subject to Ax ≤ v, x ≥ 0, Σx = 1."""
    from scipy.optimize import linprog

    A = np.asarray(problem.args[0])
    rows, columns = A.shape
    program = linprog(
        np.append(np.zeros(columns), 1.0),
        A_ub=np.column_stack([A, -np.ones(rows)]),
        b_ub=np.zeros(rows),
        A_eq=np.append(np.ones(columns), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * columns + [(None, None)],
        method="highs-ds",
    )
    return float(program.fun)


BUILDERS: dict[str, Callable[[], Problem]] = {
    "ball-0.5": functools.partial(_ball, 0.5),
    "ball-0.9": functools.partial(_ball, 0.9),
    "ball-1.2": functools.partial(_ball, 1.2),
    "ill-conditioned-0.7": functools.partial(_ill_conditioned, 0.7),
    "ill-conditioned-1.5": functools.partial(_ill_conditioned, 1.5),
    "logistic": _logistic,
    "lasso": _lasso,
    "mean-variance": _mean_variance,
    "simplex-1000": _simplex,
    "matrix-completion": _matrix_completion,
    "svm": _support_vectors,
    "diabetes": _diabetes,
    "digits": _digits,
    "absolute-errors": _absolute_errors,
    "matrix-game": _matrix_game,
}
"""The problems by name. The first eight need no more than the package; the last two have kinks.

The numbers are the radius as a share of ‖x♮‖₂: below 1 the optimum is on the boundary, above it
inside.
"""
