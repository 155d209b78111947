"""The collection of trajectories in any class, by the compiled sampler or the host sampler."""

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
    """Collect mini-batches in the given members, with the policy of each seed.

    **Arguments**

    - `policies`: the policies, stacked over seeds.
    - `environment_class`: the class.
    - `members`: the number of the member of each mini-batch, of shape (seeds, mini-batches).
    - `batch`: the number of trajectories of a mini-batch.
    - `horizon`: the number of steps of a trajectory.
    - `keys`: one random key per seed.

    **Returns**

    The trajectories, with axes (seed, mini-batch, trajectory, time).

    **Raises**

    - `RunError`: if something went wrong outside of JAX, e.g. if a simulation diverged.
    """
    if isinstance(environment_class, HostClass):
        return host.collect_on_host(policies, environment_class, members, batch=batch, horizon=horizon, keys=keys)
    samples = compiled.collect_compiled(policies, environment_class, members, batch=batch, horizon=horizon, keys=keys)
    environment_class.members.check_samples(samples)
    return samples


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
    """Collect trajectories for each task, with the policy of this task. Within a trajectory, episode follows episode.

    **Arguments**

    - `policies`, `tasks`: the policies and the tasks, both stacked. The first policy acts on the first task, and so on.
    - `environment_class`: the class.
    - `member`: the name of the member in which all policies act.
    - `trajectories`: the number of trajectories for each task.
    - `horizon`: the number of steps of a trajectory.
    - `keys`: one random key per task.

    **Returns**

    The episodes, with axes (task, trajectory, time).
    """
    if isinstance(environment_class, HostClass):
        number = environment_class.index(member)
        return host.collect_episodes_on_host(
            policies, environment_class, number, tasks, trajectories=trajectories, horizon=horizon, keys=keys
        )
    where = environment_class[member]
    samples = compiled.collect_compiled_episodes(
        policies, where, tasks, trajectories=trajectories, horizon=horizon, keys=keys
    )
    where.check_samples(samples)
    return samples
