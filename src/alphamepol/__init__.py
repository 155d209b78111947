"""alphamepol: pre-train policies without reward over a class of environments, then evaluate and fine-tune them.

The file `__init__.pyi` lists the public names. Each name is loaded when it is first used, so that
`import alphamepol` does not wait for JAX.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

from alphamepol.environments.registry import register_ids  # noqa: E402 (the names above come first)

register_ids()
