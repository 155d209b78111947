"""The sampler of environments written in JAX: every trajectory of every mini-batch in one program."""

from functools import partial

import jax
from jaxtyping import Array, Int, Key

from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.mapping import map_leading_axis
from alphamepol.policies import GaussianPolicy
from alphamepol.sampling.rollout import rollout
from alphamepol.sampling.trajectories import Trajectories


def collect(
    policies: GaussianPolicy,
    environment_class: EnvironmentClass,
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
    return _collect(policies, environment_class.members, members, keys, batch, horizon)


@partial(jax.jit, static_argnames=("batch", "horizon"))
def _collect(policies, stacked: CMP, members, keys, batch: int, horizon: int) -> Trajectories:
    def one_seed(policy, members, key):
        keys = jax.random.split(key, (len(members), batch))

        def one_trajectory(member_number, key):
            member = jax.tree.map(lambda leaf: leaf[member_number], stacked)
            return rollout(policy, member, horizon, key=key)

        minibatch = jax.vmap(one_trajectory, in_axes=(None, 0))
        steps = jax.vmap(minibatch)(members, keys)
        return Trajectories(steps.observations, steps.actions, steps.particles, steps.valid, members)

    return map_leading_axis(one_seed)(policies, members, keys)
