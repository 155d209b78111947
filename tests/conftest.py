"""Shapes and types are checked while testing: jaxtyping and beartype look at every call into the package."""

import gc
import os
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

# Processes that share the tests fill the cores: threads of PyTorch and of NumPy on top would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib
import pytest
from jaxtyping import install_import_hook
from matplotlib.layout_engine import ConstrainedLayoutEngine

matplotlib.use("agg")
# Tests compile much and compute little: few of LLVM's passes, and no kernels fused by MLIR, which compile slowest.
QUICK_TO_COMPILE = [
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
]
if version("jaxlib").startswith("0.10."):  # later ones do not know it, and end where they do not know a flag
    QUICK_TO_COMPILE.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(QUICK_TO_COMPILE))
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # The processes that share the tests, which inherit this, share what they compile.
    folder = tempfile.TemporaryDirectory(prefix="alphamepol-compiled-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

# For good: modules that tests import later are checked, too. Of all rooms but the command line, whose parser fills the
# fields of its commands with values of its own.
package = Path(find_spec("alphamepol").submodule_search_locations[0])
rooms = [path.name for path in package.iterdir() if (path / "__init__.py").is_file() and path.name != "cli"]
install_import_hook([f"alphamepol.{room}" for room in rooms], "beartype.beartype")

from alphamepol.algorithms.alphamepol.config import PretrainConfig  # noqa: E402 (after the hook)
from alphamepol.figures.style import STYLE  # noqa: E402

# A run with its programs compiled spends two thirds of its time on figures. Tests draw them at a third of the
# resolution, and do not arrange them.
ConstrainedLayoutEngine.execute = lambda self, figure: None
STYLE["figure.dpi"] = 50

# Tracing makes many objects, for which all of the modules would be searched for garbage again and again.
gc.freeze()
gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Every compiled program maps memory, and Linux ends a process that has more than 65,530 mappings."""
    import jax  # not before the settings above are made

    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def tiny() -> PretrainConfig:
    """Settings with which a run takes a second or two, most of it compilation."""
    return PretrainConfig(
        alpha=0.5,
        epochs=4,
        horizon=20,
        trajectories=12,
        batch=2,
        neighbours=8,
        learning_rate=1e-3,
        max_off_policy_iterations=3,
        initial_mean=(0.0, 0.0),
        hidden=(8, 8),
        evaluation_batches=4,
        checkpoint_every=2,
    )
