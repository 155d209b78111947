"""Collecting trajectories in any class: compiled where it is written in JAX, on the host where it is not."""

from jaxtyping import Array, Int, Key

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.host import HostClass
from alphamepol.environments.tasks import Task
from alphamepol.policies.policy import Policy
from alphamepol.sampling import compiled_sampler as compiled
from alphamepol.sampling import host_sampler as host
from alphamepol.sampling.trajectories import Episodes, Trajectories


def collect_with_sampler(
    policies: Policy,
    environment_class: EnvironmentClass | HostClass,
    members: Int[Array, "seeds minibatches"],
    *,
    batch: int,
    horizon: int,
    keys: Key[Array, " seeds"],
) -> Trajectories:
    """Collect `batch` trajectories in each of the given members, with each seed's policy.

    **Arguments**

    - `policies`: stacked over seeds.
    - `members`: the number of the member that each mini-batch lives in.
    - `keys`: one per seed.
    """
    if isinstance(environment_class, HostClass):
        return host.collect_on_host(policies, environment_class, members, batch=batch, horizon=horizon, keys=keys)
    return compiled.collect_compiled(policies, environment_class, members, batch=batch, horizon=horizon, keys=keys)


def collect_episodes_with_sampler(
    policies: Policy,
    environment_class: EnvironmentClass | HostClass,
    member: str,
    tasks: Task,
    *,
    trajectories: int,
    horizon: int,
    keys: Key[Array, " tasks"],
) -> Episodes:
    """Collect `trajectories` of `horizon` steps for each task, episode after episode, with each task's policy.

    **Arguments**

    - `policies`, `tasks`: stacked; the first policy acts on the first task, and so on.
    - `member`: the name of the member that all act in.
    - `keys`: one per task.
    """
    if isinstance(environment_class, HostClass):
        number = environment_class.index(member)
        return host.collect_episodes_on_host(
            policies, environment_class, number, tasks, trajectories=trajectories, horizon=horizon, keys=keys
        )
    where = environment_class[member]
    return compiled.collect_compiled_episodes(
        policies, where, tasks, trajectories=trajectories, horizon=horizon, keys=keys
    )
