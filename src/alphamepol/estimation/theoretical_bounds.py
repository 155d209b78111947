"""The bounds (D2) to (D5), as formulas."""

import math

import numpy as np

from alphamepol.estimation.member_distances import entropy_of_distance_cells


def theoretical_one_step_bound(starts: float, differ: float, horizon: int) -> float:
    """Return the bound (D2) on D: the total variation of the starts plus T times that of a step."""
    return starts + horizon * differ


def theoretical_wasserstein_bound(starts: float, step: float, lipschitz: float, horizon: int) -> float:
    """Return the bound (D3) on W_1.

    It is (1 − L^T)/(1 − L) times the largest W_1 of a step, plus max(L, L^T) times W_1 of the starts.
    """
    if not math.isfinite(lipschitz):
        return 0.0 if step == starts == 0 else math.inf
    with np.errstate(over="ignore"):
        last = float(np.float64(lipschitz) ** horizon)
    factor = float(horizon) if lipschitz == 1 else (1 - last) / (1 - lipschitz)
    moved = 0.0 if step == 0 else step * factor
    return moved + (0.0 if starts == 0 else starts * max(lipschitz, last))


def theoretical_entropy_gap_bound(diameter: float, smallest: float) -> float:
    """Return the bound (D4): D²/σ + D ln(1/σ), where σ is the smallest probability of a cell.

    The bound is infinite if some member is never in some cell.
    """
    if diameter == 0:
        return 0.0
    return math.inf if smallest == 0 else diameter**2 / smallest - diameter * math.log(smallest)


def sharp_theoretical_gap_bound(diameter: float, cells: int) -> float:
    """Return the bound (D5): D ln(K − 1) + h(D), or ln K if D is at least 1 − 1/K.

    It is the largest difference between the entropies of two distributions on K cells at distance D. It is never
    infinite.
    """
    if diameter >= 1 - 1 / cells:
        return math.log(cells)
    flip = entropy_of_distance_cells(np.array([diameter, 1 - diameter]))
    return diameter * math.log(max(1, cells - 1)) + flip
