"""The paper's experiments, so small that they say nothing."""

import pytest
from miniatures import shrink


@pytest.fixture(scope="module")
def tiny_scale():
    """Makes the quick scale a tiny one."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        shrink(monkeypatch)
        yield
