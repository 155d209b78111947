"""Where policies come from: a run folder, a policy file, or nowhere (`random`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from alphamepol.errors import InputError
from alphamepol.policies import Policy, load_policy
from alphamepol.runs.config import PretrainConfig, config_from_dict
from alphamepol.runs.folder import RunFolder

RANDOM = "random"


@dataclass(frozen=True)
class Source:
    """Policies, and what is known of them."""

    name: str
    """As it was given: a path, or `random`."""
    label: str
    """What figures call it."""
    policies: Mapping[int, Policy]
    """By seed; none for `random`: then every use has a fresh policy."""
    class_name: str | None = None
    """The class a run was pre-trained on."""
    config: PretrainConfig | None = None
    """The settings of that run."""


def read_source(given: str | Path | Policy) -> Source:
    """Read what is named as RUN, POLICY or `random`, or take a policy as it is."""
    if isinstance(given, Policy):
        return Source("policy", "policy", {0: given})
    if str(given) == RANDOM:
        return Source(RANDOM, "Random", {})
    path = Path(given)
    if path.is_dir():
        return _read_run(path)
    if not path.is_file():
        raise InputError(f"run: there is no run folder or policy file {path}")
    return Source(str(given), path.stem, {0: load_policy(path)})


def _read_run(path: Path) -> Source:
    folder = RunFolder(path)
    described = folder.read_config()
    if described.get("command") == "finetune":
        raise InputError(
            f"run: {path} is of fine-tuning, with a policy for each task; name one of the files in {folder.policies}"
        )
    try:
        config, class_name = config_from_dict(PretrainConfig, described["config"]), str(described["class"])
    except (KeyError, TypeError) as error:
        raise InputError(f"run: {folder.config} is not of a pre-training run ({error})") from error
    label = "MEPOL" if config.alpha == 1 else f"αMEPOL ({config.alpha:g})"
    return Source(str(path), label, folder.load_policies(), class_name, config)
