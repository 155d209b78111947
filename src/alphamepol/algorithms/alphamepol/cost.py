"""The cost of a run of pre-training, measured on a small piece of an epoch before the run: its time and its memory."""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.epoch import improve_all_seeds, improvement_of_all_seeds
from alphamepol.algorithms.alphamepol.presets import preset, usual_preset
from alphamepol.algorithms.alphamepol.start import check_pretraining_start, start_pretraining
from alphamepol.algorithms.alphamepol.update import Learner
from alphamepol.compute.devices import device_memory, wait_for_devices
from alphamepol.compute.machine import machine_cores
from alphamepol.compute.mapping import mapped_rows_per_product
from alphamepol.environments.host import AnyClass, HostClass
from alphamepol.environments.make import make_class
from alphamepol.environments.registry import registered_name
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.measuring.particles import units_of_particles
from alphamepol.measuring.samples import SamplePlan, draw_sample_members, neighbours_of_samples
from alphamepol.policies.policy import Policy
from alphamepol.policies.shape import policy_shape
from alphamepol.runs.progress import duration
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.sampling.trajectories import Trajectories

SHORT, LONG = 60.0, 24 * 3600.0
"""The seconds of a run below which its cost is not measured, and the seconds from which on there is a warning."""
SPEED, PER_ROW, PER_HOST_STEP = 5e10, 1e-7, 1e-2
"""A slow machine: its operations per second, and the seconds besides for each row and each step of a host class.

With these numbers, a run that counts as short is short on other machines, too."""
PIECES, HOST_STEPS = 50, 20_000
"""The size of the piece that is measured: the most rows, in multiples of those that a network processes at once, and
the most steps in a host class. The piece has at least one mini-batch."""
TIMED = 0.5
"""The seconds for which a part of the piece is timed, unless a single round takes longer."""


@dataclass(frozen=True)
class PretrainingCost:
    """The estimated cost of a run of pre-training, as `estimate_pretraining_cost` returns it."""

    sampling: float
    """The seconds an epoch that sampling takes, for all seeds."""
    neighbours: float
    """The seconds an epoch that the search for neighbours takes, for all seeds."""
    learning: float
    """The seconds an epoch that learning takes, for all seeds, if no update stops early at its trust region."""
    total: float
    """The seconds of the whole run: the epochs, what is sampled before and after them, and the estimate itself."""
    memory: int
    """The bytes of memory at the peak of the run. On a CPU this is the memory of the process and its workers."""
    memory_there: int | None
    """The bytes of memory that the run can have; None if they are unknown."""

    @property
    def epoch(self) -> float:
        """The seconds of an epoch, without compilation."""
        return self.sampling + self.neighbours + self.learning

    @property
    def summary(self) -> str:
        """The cost in one line."""
        there = "" if self.memory_there is None else f" (of {_gigabytes(self.memory_there)})"
        return (
            f"about {_seconds_in_words(self.epoch)} an epoch, {_seconds_in_words(self.total)} in all, "
            f"{_gigabytes(self.memory)} of memory{there}"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence if the run needs more memory than there is, and one if it takes more than a day."""
        found = []
        if self.memory_there is not None and self.memory > self.memory_there:
            found.append(
                f"The run needs about {_gigabytes(self.memory)} of memory, but only {_gigabytes(self.memory_there)} "
                "can be had: use fewer --seeds, fewer --trajectories or a shorter --horizon."
            )
        if self.total > LONG:
            found.append(
                f"The run takes about {self.total / LONG:.1f} days: use fewer --epochs, --seeds, --trajectories or "
                "--max-off-policy-iterations, or a smaller network (--hidden)."
            )
        return tuple(found)

    def to_dict(self) -> dict[str, float | int | None]:
        """Return the numbers for check.json."""
        return {**dataclasses.asdict(self), "epoch": self.epoch}


def _seconds_in_words(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else duration(seconds)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2g} GB" if size < 1e10 else f"{size / 1e9:.0f} GB"


def estimate_pretraining_cost(
    environment_class: AnyClass | str, config: PretrainConfig | None = None
) -> PretrainingCost:
    """Estimate how long pre-training would take on this machine, and how much memory it would need.

    A small piece of an epoch is sampled, measured and learned from. This takes a few seconds, most of them for
    compilation. XLA tells the memory of the whole update without running it. A run with the same settings in the same
    process does not compile this update again, and what it learns does not change.

    **Arguments**

    - `environment_class`: a class of environments or its name.
    - `config`: the settings. The default is the preset `"paper"` if the class has it, else `"own"`.

    **Returns**

    A `PretrainingCost`.

    **Raises**

    - `InputError`: if a setting is not allowed or does not fit the class.
    - `RunError`: if an environment of a host class fails.

    **Example**

    ```python
    import alphamepol as am

    config = am.PretrainConfig(
        epochs=2, trajectories=4, batch=2, horizon=20, neighbours=4, hidden=(8, 8), evaluation_batches=2
    )
    cost = am.estimate_pretraining_cost("gridworld-slope", config)
    print(cost.summary)  # about … s an epoch, … s in all, … GB of memory (of … GB)
    ```
    """
    began = time.perf_counter()
    name = registered_name(environment_class)
    config = config or preset(usual_preset(name), name)
    config.check()
    environment_class = make_class(environment_class, config.probabilities)
    check_pretraining_start(environment_class, config)
    piece = _piece_of_epoch(environment_class, config)
    with jax.default_matmul_precision(config.matmul_precision):
        plan = SamplePlan.of(environment_class, piece, piece.seed_list)
        # Only the shapes of the scales matter, so the class is not sampled for them.
        start = start_pretraining(environment_class, dataclasses.replace(piece, initial_mean="none"), look=False)
        policies, keys = start.learners.policy, start.keys
        sampled, sampling = _time_sampling(policies, plan, piece, keys)
        trajectories = _fill_piece(sampled, piece)
        neighbourhood, neighbours, ready = _time_neighbours(policies, trajectories, plan, keys)
        size = _LearningSize.of(start.learners, trajectories, neighbourhood, config, keys)
        learning = _time_learning(start.learners, trajectories, neighbourhood, piece, keys)
    seeds, rows = config.seeds, config.seeds * config.minibatches
    sampling *= seeds * config.trajectories / (len(sampled.valid) * math.prod(sampled.valid.shape[1:3]))
    neighbours *= rows / math.prod(neighbourhood.valid.shape[:2])
    learning *= seeds * learning_passes(config) * config.minibatches
    learning /= piece.seeds * learning_passes(piece) * piece.minibatches
    evaluated = len(environment_class) * config.evaluation_batches / config.minibatches
    looked = (config.memory != "none" or config.normalise) + config.normalise * len(environment_class) / rows
    around = evaluated * (sampling + neighbours) + looked * sampling
    particles = _bytes_of_arrays(ready) * rows / math.prod(ready.shape[:2])
    del sampled, trajectories, neighbourhood, ready, start, policies
    held = device_memory()
    needed = size.peak(particles, config.evaluation_batches / config.minibatches)
    return PretrainingCost(
        sampling,
        neighbours,
        learning,
        total=time.perf_counter() - began + around + config.epochs * (sampling + neighbours + learning),
        memory=max(held.peak, held.now + needed),
        memory_there=held.there,
    )


def is_short_pretraining(environment_class: AnyClass, config: PretrainConfig) -> bool:
    """Tell from the settings alone whether a run clearly takes less than a minute.

    Nobody needs to know the cost of such a run, and measuring the cost would take a good part of its time.
    """
    shape = policy_shape(environment_class)
    # Each value of an image meets at most the weights of all convolutions, and gives at most 16 inputs of the network.
    image = 0 if shape.image is None else shape.observation_size * (2700 + 16 * config.hidden[0])
    operations, steps = pretraining_operations(config, image)
    seconds = operations / SPEED + learning_passes(config) * steps * PER_ROW
    return seconds + isinstance(environment_class, HostClass) * steps * PER_HOST_STEP < SHORT


def pretraining_operations(config: PretrainConfig, image_multiplications: int = 0) -> tuple[float, int]:
    """Return the approximate number of floating-point operations of all epochs, and their environment steps.

    `image_multiplications` is the number of multiplications that the policy's convolutions need for one observation.
    """
    row = 2.0 * (sum(a * b for a, b in pairwise(config.hidden)) + 4 * sum(config.hidden) + image_multiplications)
    steps = config.epochs * config.trajectories * config.horizon * config.seeds
    return learning_passes(config) * steps * row, steps


def learning_passes(config: PretrainConfig) -> float:
    """Return the number of forward passes over all samples of an epoch that take as long as its learning.

    A backward pass counts as two. Off-policy, there is a forward pass over all samples before the first iteration and
    one in each. The gradient needs a forward and a backward pass over its share of the samples. If the share is
    everything, one pass serves for both.
    """
    if config.update == "on-policy":
        return 6.0
    share = risk_tail_count(config.gradient_share if config.alpha == 1 else config.alpha, config.minibatches)
    share /= config.minibatches
    iterations = config.max_off_policy_iterations
    return 1 + iterations * (1 + 3 * share) if share < 1 else 3.0 * (1 + iterations)


def _piece_of_epoch(environment_class: AnyClass, config: PretrainConfig) -> PretrainConfig:
    """Return the settings of the piece that is measured: those of the run, with fewer mini-batches and seeds.

    A CPU does one seed after the other, so that one is enough there. Of the possible numbers of mini-batches, the
    piece has the largest for which the tail is the same share of them as in the run, as closely as possible.
    """
    seeds = 1 if jax.default_backend() == "cpu" else config.seeds
    image = policy_shape(environment_class).image
    most = PIECES * mapped_rows_per_product(0 if image is None else math.prod(image))
    count = max(1, min(config.minibatches, most // (seeds * config.batch * config.horizon)))

    def with_minibatches(number: int) -> PretrainConfig:
        return dataclasses.replace(config, seeds=seeds, trajectories=number * config.batch)

    if count == config.minibatches:
        return with_minibatches(count)
    passes = learning_passes(config)
    return min(
        map(with_minibatches, range(count, 0, -1)), key=lambda piece: round(abs(learning_passes(piece) / passes - 1), 2)
    )


def _time_sampling(
    policies: Policy, plan: SamplePlan, piece: PretrainConfig, keys: Key[Array, " seeds"]
) -> tuple[Trajectories, float]:
    """Collect trajectories, and return them with the seconds that this took.

    The environments of a host class run side by side, and one seed samples after the other. There, the trajectories of
    one seed are collected that run side by side, but at least one mini-batch.
    """
    environment_class, batch, count = plan.environment_class, piece.batch, piece.minibatches
    host = isinstance(environment_class, HostClass)
    if host:
        together = environment_class.fleet.board(piece.trajectories).together
        rows = min(piece.trajectories, max(batch, min(together, HOST_STEPS // piece.horizon)))
        policies, keys = jax.tree.map(lambda leaf: leaf[:1], (policies, keys))
        batch, count = 1, rows
    members, keys = draw_sample_members(keys, 0, environment_class.probabilities, count)

    def collect(horizon: int) -> Trajectories:
        return collect_with_sampler(policies, environment_class, members, batch=batch, horizon=horizon, keys=keys)

    # The first call compiles, and starts the workers of a host class.
    wait_for_devices(collect(1 if host else piece.horizon))
    return _time_rounds(lambda: collect(piece.horizon))


def _time_rounds(function: Callable[[], Any], most: int = 3) -> tuple[Any, float]:
    """Call a function up to `most` times, as long as there is time. Return its result and the least seconds."""
    found, spent, least = None, 0.0, math.inf
    for _ in range(most):
        start = time.perf_counter()
        found = wait_for_devices(function())
        seconds = time.perf_counter() - start
        spent, least = spent + seconds, min(least, seconds)
        if spent > TIMED:
            break
    return found, least


def _fill_piece(sampled: Trajectories, piece: PretrainConfig) -> Trajectories:
    """Arrange trajectories in the mini-batches of the piece. They are repeated if they are too few.

    No two particles coincide and every step is valid, so that the piece can be learned from, whatever the untrained
    policy did.
    """
    seeds, minibatches, batch, *_ = sampled.valid.shape
    chosen = np.arange(piece.trajectories) % (minibatches * batch)

    def arrange(leaf: Array) -> Array:
        rows = leaf.reshape(seeds, minibatches * batch, *leaf.shape[3:])[np.arange(piece.seeds) % seeds]
        return rows[:, chosen].reshape(piece.seeds, piece.minibatches, piece.batch, *leaf.shape[3:])

    places = None if sampled.places is None else arrange(sampled.places)
    particles = jnp.nan_to_num(arrange(sampled.particles))
    noise = jax.random.normal(jax.random.key(0), particles.shape)
    return Trajectories(
        arrange(sampled.perceived),
        arrange(sampled.actions),
        particles + 0.01 * (jnp.std(particles) + jnp.max(jnp.abs(particles)) * 1e-3 + 1e-6) * noise,
        jnp.ones((piece.seeds, piece.minibatches, piece.batch, piece.horizon), bool),
        jnp.zeros((piece.seeds, piece.minibatches), sampled.members.dtype),
        places,
    )


def _time_neighbours(
    policies: Policy, trajectories: Trajectories, plan: SamplePlan, keys: Key[Array, " seeds"]
) -> tuple[Neighbourhood, float, Array]:
    """Find neighbours. Return them with the seconds that this took, and the particles that were measured."""

    def measure() -> tuple[Neighbourhood, Trajectories]:
        ready = plan.ready(trajectories, units_of_particles(policies), keys=keys)
        return neighbours_of_samples(ready, plan.settings.neighbours), ready

    measure()  # this call compiles
    (neighbourhood, ready), seconds = _time_rounds(measure)
    # Each core of a CPU works on a mini-batch of its own, so that a single mini-batch leaves the others idle.
    idle = machine_cores() / math.prod(neighbourhood.valid.shape[:2])
    return neighbourhood, seconds / max(1.0, idle if jax.default_backend() == "cpu" else 1.0), ready.particles


def _time_learning(
    learners: Learner,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    piece: PretrainConfig,
    keys: Key[Array, " seeds"],
) -> float:
    """Return the seconds of learning from the piece. All iterations take the same time, so that a few are timed."""
    # With a rate of 0 no step leaves the trust region.
    still = dataclasses.replace(piece, learning_rate=0.0, trust_region=math.inf)

    def seconds(iterations: int, rounds: int = 3) -> float:
        timed = dataclasses.replace(still, max_off_policy_iterations=iterations)
        improve = lambda: improve_all_seeds(learners, trajectories, neighbourhood, timed, keys=keys)  # noqa: E731
        return _time_rounds(improve, rounds)[1]

    seconds(0, rounds=1)  # this call compiles
    wanted, one = piece.max_off_policy_iterations, seconds(1)
    if piece.update == "on-policy" or wanted == 1:
        return one
    some = min(wanted, 1 + max(1, int(TIMED / one)))
    return one + (wanted - 1) * (seconds(some) - one) / (some - 1)


@dataclass(frozen=True)
class _LearningSize:
    """The sizes of the arrays of a run, in bytes."""

    trajectories: int
    neighbourhood: int
    learning: int
    """The arguments, the results and the intermediate values of the update."""

    @classmethod
    def of(
        cls,
        learners: Learner,
        trajectories: Trajectories,
        neighbourhood: Neighbourhood,
        config: PretrainConfig,
        keys: Key[Array, " seeds"],
    ) -> "_LearningSize":
        """Compile the update of the whole run for arrays like those of the piece, and take the sizes from it."""

        def enlarge(tree: Any, *axes: int) -> Any:
            return jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(
                    (*axes, *leaf.shape[len(axes) :]), leaf.dtype, weak_type=leaf.aval.weak_type
                ),
                tree,
            )

        axes = config.seeds, config.minibatches
        samples, found = enlarge(trajectories, *axes), enlarge(neighbourhood, *axes)
        improve, settings = improvement_of_all_seeds(config)
        arguments = enlarge(learners, config.seeds), samples, found, settings, enlarge(keys, config.seeds)
        sizes = improve.lower(*arguments).compile().memory_analysis()
        learning = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
        return cls(_bytes_of_arrays(samples), _bytes_of_arrays(found), learning)

    def peak(self, particles: float, evaluated: float) -> int:
        """Return the bytes at the peak of the run.

        `particles` are the bytes of the measured particles. An evaluation has `evaluated` times as many mini-batches as
        an epoch. The trajectories of an epoch stay until the next epoch is done. While they are collected or listed,
        trajectories and neighbours exist twice.
        """
        measuring = particles + 2 * self.neighbourhood
        sampling, learning = 2 * self.trajectories, self.learning
        epoch = self.trajectories + max(sampling, self.trajectories + measuring, learning)
        return int(max(epoch, evaluated * max(sampling, self.trajectories + measuring)))


def _bytes_of_arrays(tree: Any) -> int:
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
