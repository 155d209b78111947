"""Test the names that `import alphamepol` offers."""

import subprocess
import sys

import pytest

import alphamepol

pytestmark = pytest.mark.quick


def test_every_public_name_is_there() -> None:
    for name in alphamepol.__all__:
        assert getattr(alphamepol, name) is not None
    assert set(alphamepol.__all__) <= set(dir(alphamepol))


def test_importing_the_package_does_not_import_jax() -> None:
    code = "import sys, alphamepol; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
