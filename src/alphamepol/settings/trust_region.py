"""The settings of a natural-gradient step within a trust region."""

from dataclasses import dataclass

from alphamepol.settings.fields import check_field_above_zero, check_field_at_least, check_field_at_least_zero


@dataclass(frozen=True)
class TrustRegionSettings:
    """The size of a natural-gradient step, and the way to find it."""

    max_kl: float = 1e-4
    """δ_KL, the largest mean KL divergence of one step."""
    damping: float = 0.1
    """The number that is added to the diagonal of the Fisher matrix."""
    conjugate_gradient_iterations: int = 10
    """The number of conjugate-gradient iterations that find the direction of the step."""
    line_search_tries: int = 10
    """The largest number of tries of the line search. Each further try halves the step."""


def check_trust_region_settings(settings: TrustRegionSettings) -> None:
    """Raise an `InputError` for the first field whose value is not allowed."""
    for field in ("conjugate_gradient_iterations", "line_search_tries"):
        check_field_at_least(settings, field, 1)
    check_field_above_zero(settings, "max_kl")
    check_field_at_least_zero(settings, "damping")
