"""The shape that a policy needs to act in a class of environments, and untrained policies of a shape."""

import math
from typing import NamedTuple

import gymnasium
import jax
from jaxtyping import PRNGKeyArray

from alphamepol.compute.keys import MEMORY, POLICY_TRUNK
from alphamepol.environments.host import AnyClass
from alphamepol.environments.image_spaces import Shape, image_space_shape
from alphamepol.errors import InputError
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.memory import ActionRange, Memory
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import CategoricalPolicy, GaussianPolicy, SquashedPolicy
from alphamepol.policies.scaling import Scaling
from alphamepol.settings.policy import PolicySettings


class PolicyShape(NamedTuple):
    """The shape that the spaces of a class require of a policy."""

    kind: str
    observation_size: int
    action_size: int
    actions: ActionRange
    image: Shape | None = None
    """The shape of observations that are images; None for vectors."""

    @classmethod
    def of_spaces(cls, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> "PolicyShape":
        """Return the shape for these spaces.

        The policy is Gaussian if actions are vectors, and categorical if they are finitely many. It has convolutions if
        observations are images. Raises an `InputError` for other spaces.
        """
        image = image_space_shape(observation_space)
        if image is None and (
            not isinstance(observation_space, gymnasium.spaces.Box) or len(observation_space.shape) != 1
        ):
            raise InputError(
                f"observation_space: {observation_space} is not possible, only vectors (Box) and images (uint8, "
                f"height x width x channels, at least 7 x 7)"
            )
        inputs = math.prod(observation_space.shape or ())
        if isinstance(action_space, gymnasium.spaces.Discrete) and action_space.start == 0:
            choices = int(action_space.n)
            return cls("categorical", inputs, choices, ActionRange(choices), image)
        if isinstance(action_space, gymnasium.spaces.Box) and len(action_space.shape) == 1:
            actions = ActionRange(0, tuple(action_space.low.tolist()), tuple(action_space.high.tolist()))
            return cls("gaussian", inputs, actions.size, actions, image)
        raise InputError(f"action_space: {action_space} is not possible, only vectors (Box) and Discrete from 0 on")


def policy_shape(environment_class: AnyClass) -> PolicyShape:
    """Return the shape that a policy needs to act in a class."""
    return PolicyShape.of_spaces(environment_class[0].observation_space, environment_class[0].action_space)


def check_policy_shape(policy: Policy, environment_class: AnyClass, what: str = "policy") -> None:
    """Raise an `InputError` if a policy cannot act in a class. `what` is the name of the policy in the message."""
    check_policy_fits(policy, policy_shape(environment_class), f"class {environment_class.name}", what)


def check_policy_fits(policy: Policy, needed: PolicyShape, where: str, what: str = "policy") -> None:
    """Raise an `InputError` if a policy does not have a shape. `where` is the name of what needs this shape."""
    if policy.kind != needed.kind and (policy.kind, needed.kind) != ("squashed", "gaussian"):
        raise InputError(f"{what}: it is {policy.kind}, but {where} needs a {needed.kind} policy")
    sizes = policy.observation_size, policy.action_size
    if sizes != (needed.observation_size, needed.action_size):
        raise InputError(
            f"{what}: it maps {sizes[0]} observation numbers to {sizes[1]} action numbers, but "
            f"{where} needs {needed.observation_size} and {needed.action_size}"
        )
    image = policy.trunk and policy.trunk.shape
    if image != needed.image:
        raise InputError(
            f"{what}: it sees {f'images {image}' if image else 'vectors'}, but observations of "
            f"{where} are {f'images {needed.image}' if needed.image else 'vectors'}"
        )
    squashed = policy if isinstance(policy, SquashedPolicy) else None
    for does, part in (("remembers", policy.memory), ("scales", policy.scaling), ("squashes", squashed)):
        if part is not None and part.actions != needed.actions:
            raise InputError(
                f"{what}: it {does} actions within {part.actions.describe()}, but those of "
                f"{where} are within {needed.actions.describe()}"
            )


def fresh_policy(shape: PolicyShape, settings: PolicySettings, features: int = 0, *, key: PRNGKeyArray) -> Policy:
    """Build an untrained policy. `features` is the size of a particle, which only policies with scaling need."""
    memory = None
    if settings.memory != "none":
        units = settings.recurrent_units if settings.memory == "recurrent" else 0
        memory = Memory(shape.observation_size, shape.actions, units, key=jax.random.fold_in(key, MEMORY))
    scaling = Scaling(shape.observation_size, features, shape.actions) if settings.normalise else None
    trunk = shape.image and Trunk(shape.image, biases="uniform", key=jax.random.fold_in(key, POLICY_TRUNK))
    sizes = shape.observation_size, shape.action_size, settings.hidden
    if shape.kind == "categorical":
        return CategoricalPolicy(*sizes, memory, scaling, trunk, key=key)
    return GaussianPolicy(*sizes, settings.initial_log_std, memory, scaling, trunk, key=key)
