"""The number of seeds or tasks with which an interval would be narrow enough."""

from scipy.special import stdtrit

MOST_UNITS = 100_000
"""The largest number of seeds or tasks that is looked for."""


def units_for_narrower_interval(units: int, ratio: float) -> int | None:
    """Return how many units would be expected to shrink an interval to `ratio` times its present width.

    The interval of a mean of n seeds or tasks is as wide as t/√n, where t is the quantile of Student's distribution
    with n − 1 degrees of freedom. The spread between units is taken to stay the same. The result is None if more than
    `MOST_UNITS` would be needed.
    """

    def width(count: int) -> float:
        return float(stdtrit(count - 1, 0.975)) / count**0.5

    wanted = ratio * width(units)
    if width(MOST_UNITS) > wanted:
        return None
    few, many = 2, MOST_UNITS
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if width(middle) <= wanted else (middle, many)
    return many
