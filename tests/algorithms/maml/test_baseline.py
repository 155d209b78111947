"""Compare the linear baseline, and the projection that it uses, with NumPy's least squares in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol.algorithms.maml.baseline import maml_linear_baseline, project_for_maml_baseline
from alphamepol.compute.orthonormal import DEPENDENT, orthonormal

PROJECT = jax.jit(project_for_maml_baseline)
ORTHONORMAL = jax.jit(orthonormal)
BASELINE = jax.jit(maml_linear_baseline)


def columns_of(case: str) -> np.ndarray:
    """Return 8 columns of 40 rows, or of 4 rows in the last case."""
    random = np.random.default_rng(0)
    columns = random.normal(size=(40, 8)) * [1.0, 100.0, 1e-3, 1.0, 1.0, 1.0, 1.0, 1.0]
    if case == "dependent":
        some = columns[:, :5]
        return np.column_stack([some[:, 0], some, some @ [1.0, 0.01, 0.0, -2.0, 1.0], 3 * some[:, 1]])
    if case == "zero":
        return columns * [0, 1, 1, 0, 1, 1, 1, 0]
    if case == "nothing but zero":
        return 0 * columns
    return columns if case == "well posed" else random.normal(size=(4, 8))


CASES = ["well posed", "dependent", "zero", "nothing but zero", "more columns than rows"]


def least_squares(columns: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the projection of the target onto the columns, in float64."""
    return columns @ np.linalg.lstsq(columns, target, rcond=None)[0]


@pytest.mark.parametrize("wide", [True, False], ids=["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_the_projection_is_that_of_least_squares(case: str, wide: bool) -> None:
    columns = columns_of(case)
    target = np.random.default_rng(1).normal(size=len(columns)) + 2.0
    with jax.enable_x64(wide):
        found = PROJECT(jnp.array(columns, float), jnp.array(target, float))
    assert found.dtype == (np.float64 if wide else np.float32)
    np.testing.assert_allclose(found, least_squares(columns, target), rtol=0, atol=1e-10 if wide else 2e-5)


@pytest.mark.parametrize("wide", [True, False], ids=["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_orthonormal_columns_are_orthonormal_and_span_the_same(case: str, wide: bool) -> None:
    """The number of orthonormal columns is the rank. All other columns are exactly zero."""
    columns = columns_of(case)
    with jax.enable_x64(wide):
        basis = np.asarray(ORTHONORMAL(jnp.array(columns, float)), float)
    error = 1e-12 if wide else 1e-5
    kept = np.any(basis != 0, axis=0)
    assert kept.sum() == np.linalg.matrix_rank(columns)
    np.testing.assert_allclose(basis.T @ basis, np.diag(kept.astype(float)), rtol=0, atol=error)
    lengths = np.linalg.norm(columns, axis=0)
    np.testing.assert_allclose(basis @ (basis.T @ columns), columns, rtol=0, atol=error * max(lengths.max(), 1.0))


def test_each_orthonormal_column_is_what_its_own_adds_to_those_before() -> None:
    """The result is that of Gram–Schmidt: the triangular factor of QR has a positive diagonal."""
    columns = columns_of("well posed")
    with jax.enable_x64(True):
        basis = np.asarray(ORTHONORMAL(jnp.array(columns)))
    triangle = basis.T @ columns
    np.testing.assert_allclose(np.tril(triangle, -1), 0.0, atol=1e-11)
    assert np.all(np.diag(triangle) > 0)


@pytest.mark.parametrize("wide", [True, False], ids=["float64", "float32"])
def test_columns_that_hardly_differ_stay_orthonormal_and_those_that_differ_less_are_dropped(wide: bool) -> None:
    """This needs a second pass: after one pass, rounding leaves a part of the components that were removed."""
    random = np.random.default_rng(2)
    one, other = np.linalg.qr(random.normal(size=(1000, 2)))[0].T
    with jax.enable_x64(wide):
        near, too_near = (
            np.asarray(ORTHONORMAL(jnp.array(np.column_stack([one, one + part * DEPENDENT * other]), float)), float)
            for part in (3.0, 0.3)
        )
    np.testing.assert_allclose(near.T @ near, np.eye(2), rtol=0, atol=1e-12 if wide else 1e-5)
    np.testing.assert_allclose(too_near.T @ too_near, np.diag([1.0, 0.0]), rtol=0, atol=1e-12 if wide else 1e-5)


def stated_features(perceived: np.ndarray) -> np.ndarray:
    """Return a row per step: the perceived numbers, their squares, three powers of a hundredth of the time, and 1."""
    rows = [
        [*one, *(number**2 for number in one), t / 100, (t / 100) ** 2, (t / 100) ** 3, 1.0]
        for steps in perceived
        for t, one in enumerate(steps)
    ]
    return np.array(rows, float)


def walks(trajectories: int, horizon: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the perceived numbers of random walks, returns, and which steps are valid.

    Some walks end early. The perceived numbers tell little about the returns.
    """
    random = np.random.default_rng(3)
    perceived = np.cumsum(random.normal(size=(trajectories, horizon, 2)), axis=1) / np.sqrt(horizon)
    left = np.arange(horizon, 0, -1) / horizon
    returns = left**2 + np.sin(2 * perceived[..., 0]) + random.normal(size=(trajectories, horizon))
    lengths = random.integers(1, 2 * horizon, size=(trajectories, 1))
    valid = np.arange(horizon) < lengths
    assert 0.1 < np.mean(~valid) < 0.9
    return perceived, returns, valid


@pytest.mark.parametrize("wide", [True, False], ids=["float64", "float32"])
def test_the_baseline_is_the_least_squares_fit_to_the_valid_steps(wide: bool) -> None:
    """Values at steps that are not valid do not count, and the baseline is 0 there."""
    perceived, returns, valid = walks(20, 200)
    counted = valid.ravel()
    expected = np.zeros(valid.size)
    expected[counted] = least_squares(stated_features(perceived)[counted], returns.ravel()[counted])
    garbled = np.where(valid[..., None], perceived, np.nan), np.where(valid, returns, np.nan)
    with jax.enable_x64(wide):
        found = np.asarray(BASELINE(*(jnp.array(part, float) for part in garbled), jnp.array(valid)))
    np.testing.assert_allclose(found, expected.reshape(valid.shape), rtol=0, atol=1e-10 if wide else 1e-4)
    np.testing.assert_array_equal(found[~valid], 0.0)


def test_images_are_perceived_as_numbers() -> None:
    """Pixels are bytes. Their squares do not fit into bytes."""
    pixels = np.random.default_rng(4).integers(0, 256, size=(8, 10, 3), dtype=np.uint8)
    returns = np.random.default_rng(5).normal(size=(8, 10))
    expected = least_squares(stated_features(pixels.astype(float)), returns.ravel())
    found = BASELINE(jnp.array(pixels), jnp.array(returns, jnp.float32), jnp.ones((8, 10), bool))
    np.testing.assert_allclose(found.ravel(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1.0, 1e9, 1e18])
def test_the_baseline_fits_squares_of_inputs_in_any_unit(unit: float) -> None:
    """The squares of the squared inputs would underflow or overflow in float32, and the column would be lost."""
    perceived = np.random.default_rng(0).normal(size=(10, 50, 2))
    returns = jnp.asarray(1 + perceived[..., 0] + perceived[..., 1] ** 2, jnp.float32)
    found = BASELINE(jnp.asarray(perceived * unit, jnp.float32), returns, jnp.ones((10, 50), bool))
    np.testing.assert_allclose(found, returns, atol=1e-4)
