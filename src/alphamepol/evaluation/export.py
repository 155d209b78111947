"""`alphamepol export`: write a policy for other libraries."""

from pathlib import Path

from alphamepol.environments.class_record import recorded_spaces
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.errors import InputError
from alphamepol.files.atomic import write_atomically
from alphamepol.policies.files import save_policy
from alphamepol.policies.shape import PolicyShape, check_policy_fits, check_policy_shape
from alphamepol.policies.stable_baselines3 import to_sb3_zip
from alphamepol.policies.unscaled import unscaled_policy
from alphamepol.runs.sources import (
    checked_class_of_source,
    choose_policy_of_run,
    read_sources,
    say_checkpoints_of_sources,
)

SUFFIXES = {"sb3": ".zip", "safetensors": ".safetensors"}


def export(
    run: str | Path,
    out: str | Path,
    to: str,
    *,
    seed: int | None = None,
    checkpoint: int | None = None,
    environment_class: AnyClass | str | None = None,
) -> None:
    """Write a policy in the format of another library.

    **Arguments**

    - `run`: the folder of a run that trained policies, a policy file, or the name of a policy that comes with the
      package.
    - `out`: the file to write. An existing file is replaced. Its name must end in .zip for "sb3", and in .safetensors
      for "safetensors".
    - `to`: the format. "sb3" is a zip that PPO of Stable-Baselines3 and TRPO of sb3_contrib load. "safetensors" holds
      the weights by name, for any library. The scaling of a policy with `normalise` becomes part of its layers, except
      for images. docs/policy-files.md describes the file, with programs in PyTorch that act with it.
    - `seed`: the seed of the policy to export. If it is not given, the first policy of the run is exported.
    - `checkpoint`: the number of steps after which the run saved the policy. The default is the final policy, or the
      newest checkpoint of a run that has not ended.
    - `environment_class`: for "sb3", the class in whose spaces the policy acts, or its name. If it is not given, the
      spaces that the run folder has recorded are used. A policy file that is not in a run folder needs it.

    **Raises**

    - `InputError`: if there is no such policy, or if the format is not known or does not match the name of `out`.
    - `InputError`: for "sb3", if the class is not known, if Stable-Baselines3 is not installed, or if it cannot
      represent the policy (images, squashed or recurrent policies, actions without bounds).

    **Example**

    ```python
    import alphamepol as am

    am.export("gridworld-slope/alpha-0.2", "policy.safetensors", "safetensors")
    policy = am.load_policy("policy.safetensors")
    print(policy.observation_size)  # 2
    ```
    """
    out = Path(out)
    if to not in SUFFIXES:
        raise InputError(f"to: {to!r} was given; choose from {', '.join(SUFFIXES)}")
    if out.suffix != SUFFIXES[to]:
        raise InputError(f"out: {out} was given; for --to {to} its name must end in {SUFFIXES[to]}")
    (source,) = read_sources([run], checkpoint=checkpoint)
    say_checkpoints_of_sources([source])
    if not source.policies:
        raise InputError("run: random is no policy that could be exported; give a run folder or a policy file")
    policy = choose_policy_of_run(source.policies, seed, source.name)
    if to == "safetensors":
        # Only a policy that sees images cannot take its scaling into its layers; its file keeps the scaling.
        save_policy(unscaled_policy(policy) if policy.trunk is None else policy, out)
        return
    if environment_class is None and source.class_record is not None:
        spaces = recorded_spaces(source.class_record)
        check_policy_fits(policy, PolicyShape.of_spaces(*spaces), f"the class in class.json of {run}")
        write_atomically(out, to_sb3_zip(policy, *spaces))
        return
    if environment_class is None and source.class_name is None:
        raise InputError(f"class: none was given, and the policy file {run} does not name one; give it with --class")
    environment_class = environment_class or checked_class_of_source(str(source.class_name))
    environment_class = make_class(environment_class)
    check_policy_shape(policy, environment_class)
    first = environment_class[0]
    write_atomically(out, to_sb3_zip(policy, first.observation_space, first.action_space))
