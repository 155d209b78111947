"""`alphamepol export`: a policy for other libraries."""

from pathlib import Path

from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.errors import InputError
from alphamepol.files.atomic import write_atomically
from alphamepol.policies.files import save_policy
from alphamepol.policies.policy import Policy
from alphamepol.policies.shape import check_policy_shape
from alphamepol.policies.stable_baselines3 import to_sb3_zip
from alphamepol.runs.sources import Source, checked_class_of_source, read_source

SUFFIXES = {"sb3": ".zip", "safetensors": ".safetensors"}


def export(
    run: str | Path,
    out: str | Path,
    to: str,
    *,
    seed: int | None = None,
    environment_class: AnyClass | str | None = None,
) -> None:
    """Write a policy of a run, or of a policy file, in another library's format.

    **Arguments**

    - `run`: the folder of a run that trained policies, or a policy file.
    - `out`: the file to write; an existing one is replaced.
    - `to`: "sb3", a zip that PPO and sb3_contrib's TRPO load; or "safetensors", weights by name.
    - `seed`: which of the run's policies; the first if not given.
    - `environment_class`: for sb3, the class whose spaces the policy acts in, or its name; the run's own if not given.
    """
    out = Path(out)
    if to not in SUFFIXES:
        raise InputError(f"to: {to!r} was given; choose from {', '.join(SUFFIXES)}")
    if out.suffix != SUFFIXES[to]:
        raise InputError(f"out: {out} was given; for --to {to} its name must end in {SUFFIXES[to]}")
    source = read_source(run)
    policy = _choose_policy_to_export(source, seed)
    if to == "safetensors":
        save_policy(policy, out)
        return
    if environment_class is None and source.class_name is None:
        raise InputError(f"class: {run} is a policy file; say with --class in which class it acts")
    environment_class = environment_class or checked_class_of_source(str(source.class_name))
    environment_class = make_class(environment_class)
    check_policy_shape(policy, environment_class)
    first = environment_class[0]
    write_atomically(out, to_sb3_zip(policy, first.observation_space, first.action_space))


def _choose_policy_to_export(source: Source, seed: int | None) -> Policy:
    if not source.policies:
        raise InputError("run: random is no policy that could be exported; give a run folder or a policy file")
    if seed is None:
        return next(iter(source.policies.values()))
    if seed not in source.policies:
        there = ", ".join(map(str, source.policies))
        raise InputError(f"seed: {seed} was given; {source.name} has the policies {there}")
    return source.policies[seed]
