"""Import everything once, so that a forked child begins at once."""

import gc
import importlib
import io
import pkgutil
from pathlib import Path
from typing import Any


def import_everything() -> None:
    """Import all modules that commands use, without starting JAX's backend, and let figures be drawn faster."""
    import alphamepol

    for module in pkgutil.walk_packages(alphamepol.__path__, "alphamepol."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    import gymnasium
    import matplotlib.pyplot
    import miniatures  # noqa: F401
    import pytest  # noqa: F401
    from jax._src import xla_bridge
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from stable_baselines3 import PPO

    from alphamepol.figures.style import STYLE
    from alphamepol.policies.stable_baselines3 import _Spaces

    ConstrainedLayoutEngine.execute = lambda self, figure: None
    STYLE["figure.dpi"] = 30
    Figure.savefig = _draw_once
    matplotlib.pyplot.close(matplotlib.pyplot.figure())
    box = gymnasium.spaces.Box(-1, 1, (2,))
    PPO("MlpPolicy", _Spaces(box, box), device="cpu").save(io.BytesIO())  # imports more of PyTorch
    assert not xla_bridge._backends, "JAX's backend must start in the children only"
    gc.collect()
    gc.freeze()


def _draw_once(figure: Any, path: Any, **options: Any) -> None:
    """Draw a figure once, in place of `savefig`, which draws it twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    suffix = options.get("format") or Path(str(path)).suffix.removeprefix(".")
    if suffix == "png":
        FigureCanvasAgg(figure).print_png(path)
    else:
        FigureCanvasSVG(figure).print_svg(path, metadata=options.get("metadata"))


def take_tiny_settings() -> None:
    """Give the reproduction and the demo the settings of their originals, in this process."""
    import pytest
    from miniatures import shrink

    from alphamepol.reproduction import demo
    from benchmarks.reliability.hostile.originals import TINY_REPRODUCTION, tiny_demo_preset

    shrink(pytest.MonkeyPatch(), TINY_REPRODUCTION)
    demo.preset = tiny_demo_preset  # pyright: ignore[reportAttributeAccessIssue]
