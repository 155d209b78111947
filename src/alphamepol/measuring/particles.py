"""The particles whose entropy is estimated: encoded if they are images, divided by their units, and with noise."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from alphamepol.compute.keys import ENCODER_NOISE, FEATURE_NOISE, seed_keys
from alphamepol.compute.mapping import map_leading_axis, mapped_rows_per_product
from alphamepol.environments.host import AnyClass
from alphamepol.environments.member_tasks import feature_size_of_member
from alphamepol.errors import InputError
from alphamepol.policies.image_networks import ENCODED, RandomEncoder, image_encoder_noise
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import UniformPolicy
from alphamepol.policies.scaling import deviation_for_scaling
from alphamepol.policies.shape import policy_shape
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.samples import EncoderKind, SampleSettings

UNIT_TRAJECTORIES, UNIT_STEPS = 10, 200
"""The number of trajectories in each member, and the most steps of each, on which the units of a class are measured."""


def find_particle_encoder(environment_class: AnyClass, settings: SampleSettings) -> RandomEncoder | None:
    """Make the random encoder for particles that are images; return None if particles are used as they are."""
    shape = policy_shape(environment_class)
    if settings.encoder == "none" or (settings.encoder == "auto" and not _particles_are_images(environment_class)):
        return None
    if shape.image is None or not _particles_are_images(environment_class):
        raise InputError(
            f"encoder: random was given, but the particles of class {environment_class.name} are no images (uint8, "
            "height x width x channels, at least 7 x 7); use none"
        )
    return RandomEncoder(shape.image, key=jax.random.key(settings.encoder_seed))


def particle_size(environment_class: AnyClass, encoder: EncoderKind = "auto") -> int:
    """Return the number of components of a particle, after it is encoded if it is an image."""
    encoded = _particles_are_images(environment_class) and encoder != "none"
    return ENCODED if encoded else feature_size_of_member(environment_class[0])


def _particles_are_images(environment_class: AnyClass) -> bool:
    """Tell whether particles are images, namely whole observations."""
    shape = policy_shape(environment_class)
    return shape.image is not None and feature_size_of_member(environment_class[0]) == shape.observation_size


def units_of_particles(policies: Policy) -> Float[Array, "*seeds features"] | None:
    """Return the units of particles that policies were started with; None without scaling."""
    return None if policies.scaling is None else policies.scaling.particle_deviation


def class_particle_units(environment_class: AnyClass, settings: SampleSettings) -> Float[Array, " features"]:
    """Return the units of a class: the standard deviation of its particles under uniformly random actions.

    The units are the same for every policy, batch size, horizon, seed and α, so that all runs of a class can be
    compared. They depend on the encoder, if particles are images. Every member counts the same. The units of a
    generated class come from members of its training stream, so that nothing depends on its test members.
    """
    shape, members = policy_shape(environment_class), len(environment_class)
    keys, generator = seed_keys([0]), environment_class.generator
    first = 0 if generator is None else generator.shown
    limit = min(environment_class[number].time_limit for number in range(members))
    seen = collect_with_sampler(
        UniformPolicy(shape.observation_size, shape.actions),
        environment_class,
        jax.device_put(np.arange(first, first + members, dtype=np.int32)[None]),
        batch=UNIT_TRAJECTORIES,
        horizon=int(min(UNIT_STEPS, limit)),
        keys=keys,
    )
    encoder = find_particle_encoder(environment_class, settings)
    # The encoder's noise is left out. A feature that would vary by noise only is constant, and its unit is 1.
    particles = seen.particles if encoder is None else encode_particles(encoder, seen.particles, keys, noisy=False)
    return deviation_for_scaling(particles, seen.valid)


def policies_with_class_units(policies: Policy, environment_class: AnyClass, settings: SampleSettings) -> Policy:
    """Return policies whose particle units are those of the class; policies without scaling stay as they are.

    The policies may be stacked along leading axes.
    """
    if policies.scaling is None:
        return policies
    units = class_particle_units(environment_class, settings)
    units = jnp.broadcast_to(units, (*policies.scaling.particle_deviation.shape[:-1], units.size))
    return eqx.tree_at(lambda policies: policies.scaling.particle_deviation, policies, units)


def make_particles_measurable(
    trajectories: Trajectories,
    encoder: RandomEncoder | None,
    units: Float[Array, "seeds features"] | None,
    feature_noise: float = 0.0,
    *,
    keys: Key[Array, " seeds"],
) -> Trajectories:
    """Return the trajectories with particles that are encoded, divided by their units, and with noise."""
    particles = trajectories.particles
    if encoder is not None:
        particles = encode_particles(encoder, particles, keys)
    if units is not None:
        particles = particles / units[:, None, None, None, :]
    if feature_noise:
        # The noise keeps particles from coinciding where an agent stands still.
        shape = particles.shape[1:]
        noise = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, FEATURE_NOISE), shape))(keys)
        particles = particles + feature_noise * noise
    return dataclasses.replace(trajectories, particles=particles)


@partial(jax.jit, static_argnames="noisy")
def encode_particles(
    encoder: RandomEncoder,
    particles: Float[Array, "seeds *sets pixels"],
    keys: Key[Array, " seeds"],
    noisy: bool = True,
) -> Float[Array, "seeds *sets 64"]:
    """Encode images with the random encoder, and add its noise if `noisy`."""

    def one_seed(
        particles: Float[Array, "*sets pixels"], key: PRNGKeyArray, encoder: RandomEncoder
    ) -> Float[Array, "*sets features"]:
        *sets, pixels = particles.shape
        encoded = jax.lax.map(encoder, particles.reshape(-1, pixels), batch_size=mapped_rows_per_product(pixels))
        if noisy:
            encoded += image_encoder_noise(encoded.shape, key=jax.random.fold_in(key, ENCODER_NOISE))
        return encoded.reshape(*sets, -1)

    # Entropies must not depend on how a device rounds matrix products.
    with jax.default_matmul_precision("highest"):
        return map_leading_axis(one_seed, encoder=encoder)(particles, keys)
