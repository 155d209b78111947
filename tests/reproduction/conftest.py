"""The fixtures of tests that run the paper's experiments, at a size too small to decide any claim."""

import pytest
from miniatures import shrink

from alphamepol.reproduction.catalogue import catalogue_of_experiments
from alphamepol.reproduction.scale import Scale


@pytest.fixture(scope="session")
def all_claims() -> set[str]:
    """Return the ids of all claims."""
    return {claim.id for experiment in catalogue_of_experiments(Scale("quick")) for claim in experiment.claims}


@pytest.fixture(scope="module")
def tiny_scale():
    """Make the experiments of the quick scale even smaller."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        shrink(monkeypatch)
        yield
