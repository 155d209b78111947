"""How sure a mean is."""

import numpy as np
from jaxtyping import Float

RESAMPLES = 10_000


def bootstrap_interval(
    values: Float[np.ndarray, "samples *rest"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*rest"], Float[np.ndarray, "*rest"]]:
    """Percentile bootstrap interval of the mean over the first axis; equal values give equal intervals."""
    samples = len(values)
    # How often each sample is drawn in each resample: the resampled means are then one matrix product.
    draws = np.random.default_rng(0).multinomial(samples, np.full(samples, 1 / samples), RESAMPLES)
    means = draws @ values.reshape(samples, -1) / samples
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low.reshape(values.shape[1:]), high.reshape(values.shape[1:])
