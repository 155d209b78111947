"""What must hold before numbers are made of something, and the sentence when it does not."""

from collections.abc import Sequence

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass, HostClass, HostMember
from alphamepol.errors import InputError, RunError
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.learning.alphamepol import EpochReport, Learner
from alphamepol.policies import Policy, PolicyShape, SquashedPolicy
from alphamepol.runs.config import PretrainConfig
from alphamepol.sampling.trajectories import Trajectories


def check_start(environment_class: AnyClass, config: PretrainConfig) -> None:
    """The class needs a policy for its spaces; a regressed one a number per component, and observations to draw."""
    check_horizon(environment_class, config.horizon)
    needed = policy_shape(environment_class)
    if config.initial_mean == "none":
        return
    given = " ".join(f"{value:g}" for value in config.initial_mean)
    if needed.image is not None:
        raise InputError(f"initial_mean: {given} was given; policies that see images are not regressed, use none")
    if needed.kind != "gaussian":
        raise InputError(f"initial_mean: {given} was given; actions of class {environment_class.name} have no mean")
    if len(config.initial_mean) != needed.action_size:
        raise InputError(f"initial_mean: {given} was given; an action has {needed.action_size} components")
    space = environment_class[0].observation_space
    assert isinstance(space, gymnasium.spaces.Box)  # `policy_shape` has looked
    if not (np.all(np.isfinite(space.low)) and np.all(np.isfinite(space.high))):
        raise InputError("initial_mean: the observations have no finite range to draw from; use none")


def check_horizon(environment_class: AnyClass, horizon: int) -> None:
    """Refuse a horizon that an environment of the class cuts by a time limit of its own."""
    for number, name in enumerate(environment_class.names):
        member = environment_class[number]
        if isinstance(member, HostMember) and horizon > member.time_limit:
            raise InputError(
                f"horizon: {horizon} was given, but {name} cuts episodes after {member.time_limit:g} steps; give at "
                "most that, or make it with max_episode_steps=-1"
            )


def check_reward_lasts(member: Member, name: str, horizon: int) -> None:
    """Refuse a horizon at which goals are worth nothing any more."""
    last = getattr(member, "max_steps", horizon)
    if horizon > last:
        raise InputError(
            f"horizon: {horizon} was given, but the reward in {name} falls to nothing after max_steps = {last} steps; "
            "give at most that, or make the member with more"
        )


def policy_shape(environment_class: AnyClass) -> PolicyShape:
    """What policies that can act in a class are like."""
    return PolicyShape.of_spaces(environment_class[0].observation_space, environment_class[0].action_space)


def check_policy_fits(policy: Policy, environment_class: AnyClass, what: str = "policy") -> None:
    """Refuse a policy that cannot act in a class; `what` names it."""
    needed = policy_shape(environment_class)
    if policy.kind != needed.kind and (policy.kind, needed.kind) != ("squashed", "gaussian"):
        name = environment_class.name
        raise InputError(f"{what}: it is {policy.kind}, but class {name} needs a {needed.kind} policy")
    sizes = policy.observation_size, policy.action_size
    if sizes != (needed.observation_size, needed.action_size):
        raise InputError(
            f"{what}: it maps {sizes[0]} observation numbers to {sizes[1]} action numbers, but "
            f"class {environment_class.name} needs {needed.observation_size} and {needed.action_size}"
        )
    image = policy.trunk and policy.trunk.shape
    if image != needed.image:
        raise InputError(
            f"{what}: it sees {f'images {image}' if image else 'vectors'}, but observations of class "
            f"{environment_class.name} are {f'images {needed.image}' if needed.image else 'vectors'}"
        )
    squashed = policy if isinstance(policy, SquashedPolicy) else None
    for does, part in (("remembers", policy.memory), ("scales", policy.scaling), ("squashes", squashed)):
        if part is not None and part.actions != needed.actions:
            raise InputError(
                f"{what}: it {does} actions within {part.actions.describe()}, but those of class "
                f"{environment_class.name} are within {needed.actions.describe()}"
            )


def check_units(units: Float[Array, " features"] | None, features: int, class_name: str) -> None:
    """Refuse units of other particles than those that entropies are taken of."""
    if units is not None and units.size != features:
        raise InputError(
            f"policy: it scales particles of {units.size} numbers, but those of class {class_name} have {features}"
        )


def check_particles(trajectories: Trajectories, names: Sequence[str], seeds: Sequence[int], k: int, when: str) -> None:
    """Stop on particles that are not numbers, and on mini-batches too short for k neighbours."""
    whole, counts = jax.device_get(_finite_and_counted(trajectories))
    broken, short = ~whole, counts <= k
    if broken.any():
        where = _where(broken, trajectories, names, seeds, when)
        raise RunError(f"{where}: the environment returned a state that is not finite")
    if short.any():
        raise RunError(
            f"{_where(short, trajectories, names, seeds, when)}: its trajectories ended so early that there are not "
            f"more than k = {k} particles; use fewer --neighbours or a larger --batch"
        )


@jax.jit
def _finite_and_counted(
    trajectories: Trajectories,
) -> tuple[Bool[Array, "seeds minibatches"], Int[Array, "seeds minibatches"]]:
    """Whether the valid particles of each mini-batch are all finite, and how many they are."""
    shape = trajectories.members.shape
    finite = jnp.all(jnp.isfinite(trajectories.particles), axis=-1) | ~trajectories.valid
    return jnp.all(finite.reshape(*shape, -1), axis=-1), jnp.sum(trajectories.valid.reshape(*shape, -1), axis=-1)


def check_aliasing(
    neighbourhood: Neighbourhood,
    trajectories: Trajectories,
    names: Sequence[str],
    seeds: Sequence[int],
    when: str,
    cure: str = "start again with more --neighbours, or with a little --feature-noise",
) -> None:
    """Stop when more than k particles coincide, which makes the entropy −∞."""
    aliased = np.asarray(jnp.any((neighbourhood.radii == 0) & neighbourhood.valid, axis=-1))
    if aliased.any():
        raise RunError(
            f"{_where(aliased, trajectories, names, seeds, when)}: more than k = {neighbourhood.k} particles coincide, "
            f"so that the entropy is minus infinity and has no gradient; {cure}"
        )


def check_learned(learner: Learner, report: EpochReport, seeds: Sequence[int], when: str) -> None:
    """Stop when learning has driven a policy, or the estimates of it, out of the numbers."""
    judged = (learner.policy, report.kl, report.objective_after)
    finite = [np.isfinite(leaf).reshape(len(seeds), -1).all(axis=1) for leaf in jax.device_get(jax.tree.leaves(judged))]
    lost = np.flatnonzero(~np.all(finite, axis=0))
    if lost.size:
        raise RunError(
            f"{when}, seed {seeds[lost[0]]}: the policy has moved so far that its entropy is no longer a number; start "
            "again with a lower --learning-rate"
        )


def check_finetuned(finite: Bool[Array, " rows"], iteration: int, seed: int, seeds: int) -> None:
    """Stop when something that fine-tuning saw or made is not a number."""
    lost = np.flatnonzero(~np.asarray(finite))
    if lost.size:
        task, which = divmod(int(lost[0]), seeds)
        raise RunError(
            f"iteration {iteration}, task {task}, seed {seed + which}: a state, a reward or a parameter is no longer "
            "finite; look at the reward and the environment, or start again with a lower --critic-learning-rate"
        )


def check_meta_learned(finite: Bool[np.ndarray, " seeds"], seeds: Sequence[int], when: str, cure: str) -> None:
    """Stop when meta-training has driven something out of the numbers."""
    lost = np.flatnonzero(~finite)
    if lost.size:
        raise RunError(
            f"{when}, seed {seeds[lost[0]]}: a state, a reward or a parameter is no longer finite; look at the "
            f"environment and the tasks, or start again with {cure}"
        )


def _where(bad: np.ndarray, trajectories: Trajectories, names: Sequence[str], seeds: Sequence[int], when: str) -> str:
    seed, minibatch = np.argwhere(bad)[0]
    member = names[int(trajectories.members[seed, minibatch])]
    return f"{when}, seed {seeds[seed]}, mini-batch {minibatch}, environment {member}"


def check_devices(devices: int, environment_class: AnyClass, counts: dict[str, int]) -> None:
    """Refuse more devices than there are, and a number of them that none of what is counted can be shared by."""
    if devices == 1:
        return
    there = len(jax.local_devices())
    if not 1 <= devices <= there:
        raise InputError(f"devices: {devices} was given; there {'is 1' if there == 1 else f'are {there}'}")
    if isinstance(environment_class, HostClass):
        raise InputError(
            f"devices: {devices} was given; class {environment_class.name} runs on the host, for which one is enough"
        )
    if all(count % devices for count in counts.values()):
        listed = " or ".join(f"{count} {name}" for name, count in counts.items())
        possible = [n for n in range(1, there + 1) if any(count % n == 0 for count in counts.values())]
        raise InputError(
            f"devices: {devices} was given; {listed} cannot be shared evenly by so many, only by "
            f"{', '.join(map(str, possible))}"
        )
