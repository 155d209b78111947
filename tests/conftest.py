"""Set up all tests. jaxtyping and beartype check the shapes and types of every call into the package."""

import gc
import os
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

# The test processes already use all cores. More threads, of PyTorch and NumPy, would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib
import pytest
from jaxtyping import install_import_hook
from matplotlib.layout_engine import ConstrainedLayoutEngine

matplotlib.use("agg")
# Tests compile much and compute little. These flags leave out most passes of LLVM, and the kernels that MLIR fuses,
# which are the slowest to compile.
QUICK_TO_COMPILE = [
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
]
if version("jaxlib").startswith("0.10."):  # later versions do not know this flag, and an unknown flag ends the process
    QUICK_TO_COMPILE.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(QUICK_TO_COMPILE))
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # The test processes inherit this variable, so that they share the programs that they compile.
    folder = tempfile.TemporaryDirectory(prefix="alphamepol-compiled-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

# The hook stays installed, so that modules that tests import later are checked too. It covers all subpackages but cli,
# because the parser of the command line puts its own values into the fields of commands.
package = Path(find_spec("alphamepol").submodule_search_locations[0])
rooms = [path.name for path in package.iterdir() if (path / "__init__.py").is_file() and path.name != "cli"]
install_import_hook([f"alphamepol.{room}" for room in rooms], "beartype.beartype")

from alphamepol.algorithms.alphamepol.config import PretrainConfig  # noqa: E402 (after the hook)
from alphamepol.figures.style import STYLE  # noqa: E402

# Once its programs are compiled, a run spends two thirds of its time on figures. So tests draw figures at a third of
# the resolution, and without their automatic layout.
ConstrainedLayoutEngine.execute = lambda self, figure: None
STYLE["figure.dpi"] = 50

# Hypothesis looks for the owners of random generators, and does not find them among frozen objects.
import hypothesis  # noqa: E402, F401

# Tracing makes many objects. Because of them, the garbage collector would search all modules again and again.
gc.freeze()
gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Clear JAX's caches after each module.

    Every compiled program maps memory, and Linux ends a process that has more than 65,530 mappings.
    """
    import jax  # only after the settings above

    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def tiny() -> PretrainConfig:
    """Return settings with which a run takes a second or two, most of it for compilation."""
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


@pytest.fixture
def browser():
    """Return a browser without a window."""
    from browsers import start_browser  # imports selenium, which most tests do not need

    yield from start_browser()
