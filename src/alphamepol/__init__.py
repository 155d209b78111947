"""alphamepol: reward-free pre-training over a class of environments, and what comes after it.

The public names are loaded when first used, so that `alphamepol --help` does not wait for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alphamepol.environments.gymnasium_ids import register_ids

if TYPE_CHECKING:
    from alphamepol.environments.cmp import CMP as CMP
    from alphamepol.environments.environment_class import EnvironmentClass as EnvironmentClass
    from alphamepol.environments.gridworld import Gridworld as Gridworld
    from alphamepol.environments.gymnasium import MemoryObservation as MemoryObservation
    from alphamepol.environments.minigrid import MiniGrid as MiniGrid
    from alphamepol.environments.registry import make as make
    from alphamepol.errors import InputError as InputError
    from alphamepol.errors import RunError as RunError
    from alphamepol.estimation.entropy import importance_weighted_entropy as importance_weighted_entropy
    from alphamepol.estimation.entropy import knn_entropy as knn_entropy
    from alphamepol.estimation.entropy import knn_kl as knn_kl
    from alphamepol.estimation.knn import nearest_neighbours as nearest_neighbours
    from alphamepol.estimation.risk import cvar as cvar
    from alphamepol.estimation.risk import value_at_risk as value_at_risk
    from alphamepol.images import RandomEncoder as RandomEncoder
    from alphamepol.policies import CategoricalPolicy as CategoricalPolicy
    from alphamepol.policies import GaussianPolicy as GaussianPolicy
    from alphamepol.policies import Policy as Policy
    from alphamepol.policies import SquashedPolicy as SquashedPolicy
    from alphamepol.policy_files import load_policy as load_policy
    from alphamepol.policy_files import save_policy as save_policy
    from alphamepol.runs.config import FinetuneConfig as FinetuneConfig
    from alphamepol.runs.config import MetatrainConfig as MetatrainConfig
    from alphamepol.runs.config import PretrainConfig as PretrainConfig
    from alphamepol.runs.diagnose import diagnose as diagnose
    from alphamepol.runs.diagnosis import Diagnosis as Diagnosis
    from alphamepol.runs.evaluate import Evaluation as Evaluation
    from alphamepol.runs.evaluate import evaluate as evaluate
    from alphamepol.runs.export import export as export
    from alphamepol.runs.finetune import FinetuneRun as FinetuneRun
    from alphamepol.runs.finetune import finetune as finetune
    from alphamepol.runs.metatrain import MetatrainRun as MetatrainRun
    from alphamepol.runs.metatrain import metatrain as metatrain
    from alphamepol.runs.presets import preset as preset
    from alphamepol.runs.pretrain import PretrainRun as PretrainRun
    from alphamepol.runs.pretrain import pretrain as pretrain
    from alphamepol.tasks import Goal as Goal
    from alphamepol.tasks import GoalCell as GoalCell
    from alphamepol.tasks import HalfSpace as HalfSpace
    from alphamepol.tasks import RewardFunction as RewardFunction
    from alphamepol.tasks import Task as Task

_HOME = {
    "CMP": "environments.cmp",
    "CategoricalPolicy": "policies",
    "Diagnosis": "runs.diagnosis",
    "EnvironmentClass": "environments.environment_class",
    "EnvironmentReward": "tasks",
    "Evaluation": "runs.evaluate",
    "FinetuneConfig": "runs.config",
    "FinetuneRun": "runs.finetune",
    "GaussianPolicy": "policies",
    "Goal": "tasks",
    "GoalCell": "tasks",
    "Gridworld": "environments.gridworld",
    "HalfSpace": "tasks",
    "HostClass": "environments.host",
    "InputError": "errors",
    "MemoryObservation": "environments.gymnasium",
    "MetatrainConfig": "runs.config",
    "MetatrainRun": "runs.metatrain",
    "MiniGrid": "environments.minigrid",
    "Policy": "policies",
    "PretrainConfig": "runs.config",
    "PretrainRun": "runs.pretrain",
    "RandomEncoder": "images",
    "RewardFunction": "tasks",
    "RunError": "errors",
    "SquashedPolicy": "policies",
    "Task": "tasks",
    "cvar": "estimation.risk",
    "diagnose": "runs.diagnose",
    "evaluate": "runs.evaluate",
    "export": "runs.export",
    "finetune": "runs.finetune",
    "gymnasium_class": "environments.gymnasium_class",
    "importance_weighted_entropy": "estimation.entropy",
    "knn_entropy": "estimation.entropy",
    "knn_kl": "estimation.entropy",
    "load_policy": "policy_files",
    "make": "environments.registry",
    "metatrain": "runs.metatrain",
    "nearest_neighbours": "estimation.knn",
    "preset": "runs.presets",
    "pretrain": "runs.pretrain",
    "save_policy": "policy_files",
    "value_at_risk": "estimation.risk",
}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]
__version__ = "0.1.0"

register_ids()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'alphamepol' has no attribute {name!r}")
    return getattr(import_module(f"alphamepol.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
