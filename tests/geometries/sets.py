"""NumPy descriptions of the sets: random members, mirror maps and norms, apart from the library.

Points are flat vectors; matrices are flattened row by row.
"""

import numpy as np

Vectors = np.ndarray
"""Points, one a row."""


def l2(v: np.ndarray) -> float:
    return float(np.sqrt(np.sum(v**2)))


def l1(v: np.ndarray) -> float:
    return float(np.abs(v).sum())


def lp(v: np.ndarray, p: float) -> float:
    return float(np.sum(np.abs(v) ** p) ** (1 / p))


def nuclear(v: np.ndarray, shape: tuple[int, int]) -> float:
    return float(np.linalg.svd(v.reshape(shape), compute_uv=False).sum())


def half_square(x: np.ndarray) -> float:
    return float(np.sum(x**2) / 2)


def x_log_x(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, 0.0) * np.log(np.where(x > 0, x, 1.0))


def entropy(x: np.ndarray, total: float) -> float:
    """Return s²·Σ(xᵢ/s)·log(xᵢ/s)."""
    return float(total**2 * x_log_x(x / total).sum())


def shifted_entropy(x: np.ndarray, total: float) -> float:
    return float(2 * total**2 * x_log_x(x / total + 1 / x.size).sum())


def fermi_dirac(x: np.ndarray, lower: float, upper: float) -> float:
    p = (x - lower) / (upper - lower)
    return float((upper - lower) ** 2 / 4 * (x_log_x(p) + x_log_x(1 - p)).sum())


def signed_weights(x: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the p, m ≥ 0 of least Σ(p·log p + m·log m) with x = r·(p − m), Σ(p + m) = 1."""
    low, high = 0.0, 0.5
    shares = x / radius
    for _ in range(200):
        q = (low + high) / 2
        low, high = (low, q) if np.hypot(shares, 2 * q).sum() > 1 else (q, high)
    root = np.hypot(shares, 2 * low)
    return (root + shares) / 2, (root - shares) / 2


def signed_entropy(x: np.ndarray, radius: float) -> float:
    p, m = signed_weights(x, radius)
    return float(radius**2 * (x_log_x(p) + x_log_x(m)).sum())


def von_neumann(x: np.ndarray, trace: float) -> float:
    n = int(np.sqrt(x.size))
    matrix = x.reshape(n, n)
    return float(trace**2 * x_log_x(np.linalg.eigvalsh((matrix + matrix.T) / 2) / trace).sum())


def p_norm_map(x: np.ndarray, p: float) -> float:
    return lp(x, p) ** 2 / (2 * (p - 1))


def unit(size: int, index: int, value: float) -> np.ndarray:
    return np.eye(size)[index] * value


def ball(rng: np.random.Generator, count: int, size: int, radius: float, p: float = 2) -> Vectors:
    directions = rng.normal(size=(count, size))
    directions /= np.sum(np.abs(directions) ** p, axis=1, keepdims=True) ** (1 / p)
    return radius * directions * rng.choice([1.0, 1.0, 0.3], size=(count, 1))


def box(rng: np.random.Generator, count: int, size: int, lower: float, upper: float) -> Vectors:
    points = np.clip(rng.normal(size=(count, size)), lower, upper)
    points[0], points[count - 1] = upper, lower
    return points


def simplex(rng: np.random.Generator, count: int, size: int, total: float) -> Vectors:
    alpha = rng.choice([0.05, 1.0, 20.0], size=count)
    draws = np.stack([rng.dirichlet(np.full(size, a)) for a in alpha])
    vertices = min(count, size)
    draws[:vertices] = np.eye(size)[:vertices]
    return total * draws


def capped_simplex(
    rng: np.random.Generator, count: int, size: int, total: float, cap: float
) -> Vectors:
    """Return vertices, by filling entries in random order, and mixtures of them."""
    full = int(total / cap + 1e-9)
    vertex = np.zeros(size)
    vertex[:full] = cap
    if full < size:
        vertex[full] = total - full * cap
    vertices = np.stack([rng.permutation(vertex) for _ in range(4 * count)])
    mixtures = np.einsum(
        "ck,ckn->cn", rng.dirichlet(np.ones(3), count), vertices.reshape(count, 4, size)[:, :3]
    )
    return np.where(rng.random((count, 1)) < 0.5, vertices[:count], mixtures)


def l1_ball(rng: np.random.Generator, count: int, size: int, radius: float) -> Vectors:
    signs = rng.choice([-1.0, 1.0], size=(count, size))
    return signs * simplex(rng, count, size, radius) * rng.choice([1, 0.5], (count, 1))


def group_ball(
    rng: np.random.Generator, count: int, shape: tuple[int, int], radius: float
) -> Vectors:
    """Return matrices whose rows have norms in an ℓ1 ball."""
    directions = rng.normal(size=(count, *shape))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    norms = np.abs(l1_ball(rng, count, shape[0], radius))
    return (directions * norms[:, :, None]).reshape(count, -1)


def spectral(rng: np.random.Generator, shape: tuple[int, int], values: np.ndarray) -> Vectors:
    """Return matrices with random singular vectors and the given singular values, a row each."""
    k = min(shape)
    points = []
    for row in values:
        left = np.linalg.qr(rng.normal(size=(shape[0], shape[0])))[0][:, :k]
        right = np.linalg.qr(rng.normal(size=(shape[1], shape[1])))[0][:, :k]
        points.append(((left * row) @ right.T).ravel())
    return np.stack(points)


def spectrahedron(rng: np.random.Generator, count: int, size: int, trace: float) -> Vectors:
    points = []
    for row in simplex(rng, count, size, trace):
        vectors = np.linalg.qr(rng.normal(size=(size, size)))[0]
        points.append(((vectors * row) @ vectors.T).ravel())
    return np.stack(points)


def monotone(
    rng: np.random.Generator, count: int, size: int, lower: float, upper: float
) -> Vectors:
    return np.sort(box(rng, count, size, lower, upper), axis=1)


def transport(
    rng: np.random.Generator, count: int, rows: np.ndarray, columns: np.ndarray
) -> Vectors:
    """Return plans filled greedily in random orders (vertices), and their mixtures."""

    def greedy() -> np.ndarray:
        plan = np.zeros((rows.size, columns.size))
        left, right = rows.astype(float).copy(), columns.astype(float).copy()
        for cell in rng.permutation(plan.size):
            i, j = divmod(int(cell), columns.size)
            plan[i, j] = min(left[i], right[j])
            left[i] -= plan[i, j]
            right[j] -= plan[i, j]
        return plan

    plans = []
    for _ in range(count):
        share = rng.choice([0.0, 0.3])
        plans.append(((1 - share) * greedy() + share * greedy()).ravel())
    return np.stack(plans)
