"""The cost of a run of pre-training, measured on a small piece of an epoch before the run: its time and its memory."""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.epoch import improve_all_seeds, improvement_of_all_seeds
from alphamepol.algorithms.alphamepol.start import check_pretraining_start, start_pretraining
from alphamepol.algorithms.alphamepol.update import Learner, update_may_go_in_one_pass
from alphamepol.compute.devices import device_memory, wait_for_devices
from alphamepol.compute.machine import machine_cores
from alphamepol.compute.mapping import mapped_rows_per_product
from alphamepol.compute.stopwatch import LEARNING, NEIGHBOURS, SAMPLING
from alphamepol.environments.host import AnyClass, HostClass
from alphamepol.environments.make import make_class
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.measuring.particles import units_of_particles
from alphamepol.measuring.samples import Measured, SamplePlan, draw_sample_members, neighbours_of_samples
from alphamepol.policies.networks import network_operations_per_row
from alphamepol.policies.policy import Policy
from alphamepol.policies.shape import policy_shape
from alphamepol.runs.context import RunContext
from alphamepol.runs.progress import duration
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.sampling.trajectories import Trajectories

SHORT, LONG = 60.0, 24 * 3600.0
"""The seconds of a run below which its cost is not measured, and the seconds from which on there is a warning."""
SPEED, PER_ROW, PER_HOST_STEP = 5e10, 1e-7, 1e-2
"""A slow machine: its operations per second, and the seconds besides for each row and each step of a host class.

With these numbers, a run that counts as short is short on other machines, too."""
PIECES, HOST_STEPS = 100, 20_000
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
        """The cost in words, e.g. "about 4.4 s an epoch (…), 11 min 2 s in all, and 0.7 GB of memory (of 16 GB)"."""
        there = "" if self.memory_there is None else f" (of {_gigabytes(self.memory_there)})"
        parts = ", ".join(
            f"{_seconds_in_words(getattr(self, name))} {name}" for name in (SAMPLING, NEIGHBOURS, LEARNING)
        )
        return (
            f"about {_seconds_in_words(self.epoch)} an epoch ({parts}), {_seconds_in_words(self.total)} in all, and "
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
    environment_class: AnyClass | str, config: PretrainConfig, *, devices: int = 1
) -> PretrainingCost:
    """Estimate how long pre-training would take on this machine, and how much memory it would need.

    A small piece of an epoch is sampled, measured and learned from. This takes a few seconds, most of them for
    compilation. XLA tells the memory of the whole update without running it. A run with the same settings in the same
    process does not compile this update again, and what it learns does not change.

    **Arguments**

    - `environment_class`: a class of environments or its name.
    - `config`: the settings of the run.
    - `devices`: the number of accelerators that share the run. The memory is that of one of them.

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
    print(cost.summary)  # about … s an epoch (…), … s in all, and … GB of memory (of … GB)
    ```
    """
    began, before = time.perf_counter(), device_memory()
    config.check()
    environment_class = make_class(environment_class, config.probabilities)
    check_pretraining_start(environment_class, config)
    share = _share_of_device(config, devices)
    piece = _piece_of_share(environment_class, share)
    with jax.default_matmul_precision(config.matmul_precision):
        plan = SamplePlan.of(environment_class, piece, piece.seed_list)
        # Only the shapes of the scales matter, so the class is not sampled for them.
        start = start_pretraining(environment_class, dataclasses.replace(piece, initial_mean="none"), look=False)
        sampled, sampling = _time_sampling(start.learners.policy, plan, piece, start.keys)
        # The seeds of a host class are sampled one after the other, whatever the number of devices is.
        wanted = config if isinstance(environment_class, HostClass) else share
        sampling *= wanted.seeds * wanted.trajectories / math.prod(sampled.valid.shape[:3])
        trajectories = _fill_piece(sampled, piece)
        measured, neighbours = _time_neighbours(start.learners.policy, trajectories, plan, start.keys)
        neighbours *= share.seeds * share.minibatches / measured.neighbourhood.valid[..., 0].size
        own = jax.tree.map(lambda leaf: leaf[:, : piece.minibatches], measured.neighbourhood)
        samples = start.learners, trajectories, own
        needed = _bytes_at_peak(*samples, measured.trajectories.particles, share, start.keys)
        in_one_pass = update_may_go_in_one_pass(start.learners.policy, config.batch * config.horizon)
        passes = partial(learning_passes, in_one_pass=in_one_pass)
        timed, learning = _time_learning(*samples, piece, start.keys)
        learning *= share.seeds * share.minibatches * passes(share)
        learning /= piece.seeds * piece.minibatches * passes(timed)
    epochs = config.epochs * (sampling + neighbours + learning)
    evaluation = len(environment_class) * config.evaluation_batches / config.minibatches * (sampling + neighbours)
    first_look = sampling if config.memory != "none" or config.normalise else 0.0
    del sampled, trajectories, measured, own, samples, start
    held = device_memory()
    return PretrainingCost(
        sampling,
        neighbours,
        learning,
        total=time.perf_counter() - began + first_look + epochs + evaluation,
        # An earlier peak of this process is not a peak of the run.
        memory=max(held.peak if held.peak > before.peak else 0, held.now + needed),
        memory_there=held.there,
    )


def say_pretraining_cost(environment_class: AnyClass, config: PretrainConfig, context: RunContext) -> None:
    """Say what a run will cost before its first epoch, unless the run is short or nothing is shown of it."""
    if context.progress.quiet or is_short_pretraining(environment_class, config):
        return
    cost = estimate_pretraining_cost(environment_class, config, devices=context.devices)
    for sentence in (f"The run takes {cost.summary}.", *cost.warnings):
        context.progress.say(sentence)


def is_short_pretraining(environment_class: AnyClass, config: PretrainConfig) -> bool:
    """Tell from the settings alone whether a run clearly takes less than a minute.

    Nobody needs to know the cost of such a run, and measuring the cost would take a good part of its time.
    """
    shape = policy_shape(environment_class)
    # Each value of an image meets at most the weights of all convolutions, and gives at most 16 inputs of the network.
    image = 0 if shape.image is None else shape.observation_size * (2700 + 16 * config.hidden[0])
    steps = config.epochs * config.trajectories * config.horizon * config.seeds
    rows = learning_passes(config) * steps
    seconds = rows * (PER_ROW + network_operations_per_row(config.hidden, image) / SPEED)
    return seconds + isinstance(environment_class, HostClass) * steps * PER_HOST_STEP < SHORT


def learning_passes(config: PretrainConfig, *, in_one_pass: bool = True) -> float:
    """Return the number of forward passes over all samples of an epoch that take as long as its learning.

    A backward pass counts as two. An off-policy update has a forward pass over all samples before the first iteration
    and one in each iteration. The gradient needs a forward and a backward pass over its share of the samples. If this
    share is everything and the update may go `in_one_pass`, the forward pass serves for the gradient, too, and there is
    a gradient before the first iteration.
    """
    if config.update == "on-policy":
        return 6.0
    share, iterations = _share_of_gradient(config), config.max_off_policy_iterations
    return 4.0 + 3 * iterations if share == 1 and in_one_pass else 1 + iterations * (1 + 3 * share)


def _share_of_gradient(config: PretrainConfig) -> float:
    """Return the share of the mini-batches that a gradient uses."""
    if config.alpha == 1:
        return risk_tail_count(config.gradient_share, config.minibatches) / config.minibatches
    return config.tail_size / config.minibatches


def _share_of_device(config: PretrainConfig, devices: int) -> PretrainConfig:
    """Return the settings of the part of a run that one of several accelerators works on.

    Several devices of a CPU share its cores and its memory, so that the whole run counts.
    """
    if devices == 1 or jax.default_backend() == "cpu":
        return config
    if config.seeds % devices == 0:
        return dataclasses.replace(config, seeds=config.seeds // devices)
    whole = config.batch * config.member_batches  # the trajectories of one member
    return dataclasses.replace(config, trajectories=max(whole, config.trajectories // devices // whole * whole))


def _piece_of_share(environment_class: AnyClass, share: PretrainConfig) -> PretrainConfig:
    """Return the settings of the piece that is measured: those of the run if it is small, else with fewer samples.

    A CPU works on one seed after the other, so that one seed is enough there. Of the possible numbers of mini-batches,
    the piece has the largest for which gradients use the same share of them as in the run, as closely as possible.
    """
    image = policy_shape(environment_class).image
    most = PIECES * mapped_rows_per_product(0 if image is None else math.prod(image))
    rows = share.batch * share.horizon
    whole = jax.default_backend() != "cpu" or share.seeds * share.minibatches * rows <= most
    seeds = share.seeds if whole else 1
    count = max(1, min(share.minibatches, most // (seeds * rows)))
    members = share.member_batches  # a piece has all mini-batches of its members
    counts = range(max(1, count // members) * members, 0, -members)
    pieces = [dataclasses.replace(share, seeds=seeds, trajectories=n * share.batch) for n in counts]
    return min(pieces, key=lambda piece: round(abs(_share_of_gradient(piece) - _share_of_gradient(share)), 2))


def _time_sampling(
    policies: Policy, plan: SamplePlan, piece: PretrainConfig, keys: Key[Array, " seeds"]
) -> tuple[Trajectories, float]:
    """Collect trajectories, and return them with the seconds that this took.

    In a host class, these are trajectories of one seed that run side by side, but at least one mini-batch. They are
    collected as mini-batches of one trajectory each.
    """
    environment_class, batch, count = plan.environment_class, piece.batch, piece.minibatches
    host = isinstance(environment_class, HostClass)
    if host:
        together = environment_class.fleet.board(piece.trajectories).together
        count = min(piece.trajectories, max(batch, min(together, HOST_STEPS // piece.horizon)))
        batch, (policies, keys) = 1, jax.tree.map(lambda leaf: leaf[:1], (policies, keys))
    members, keys = draw_sample_members(keys, 0, environment_class.distribution, count)

    def collect(horizon: int) -> Trajectories:
        return collect_with_sampler(policies, environment_class, members, batch=batch, horizon=horizon, keys=keys)

    # The first call compiles, and starts the workers of a host class.
    wait_for_devices(collect(1 if host else piece.horizon))
    return _time_rounds(lambda: collect(piece.horizon))


def _time_rounds(function: Callable[[], Any]) -> tuple[Any, float]:
    """Call a function up to three times, while there is time. Return its result, and the seconds of the fastest."""
    found, seconds = None, []
    while len(seconds) < 3 and sum(seconds) < TIMED:
        start = time.perf_counter()
        found = wait_for_devices(function())
        seconds.append(time.perf_counter() - start)
    return found, min(seconds)


def _fill_piece(sampled: Trajectories, piece: PretrainConfig) -> Trajectories:
    """Arrange trajectories in the mini-batches of the piece. They are repeated if there are too few.

    No particles coincide and every step is valid, so that the piece can be learned from, whatever the policy did.
    """
    axes = piece.seeds, piece.minibatches, piece.batch
    filled = jax.tree.map(lambda leaf: np.resize(leaf, (*axes, *leaf.shape[3:])), sampled)
    particles = np.nan_to_num(filled.particles)
    spread = 0.01 * particles.std() + 1e-5 * np.abs(particles).max() + 1e-6
    noise = spread * np.random.default_rng(0).normal(size=particles.shape)
    parts = (
        (particles + noise).astype(particles.dtype),
        np.ones_like(filled.valid),
        np.zeros(axes[:2], sampled.members.dtype),
    )
    return jax.device_put(eqx.tree_at(lambda tree: (tree.particles, tree.valid, tree.members), filled, parts))


def _time_neighbours(
    policies: Policy, trajectories: Trajectories, plan: SamplePlan, keys: Key[Array, " seeds"]
) -> tuple[Measured, float]:
    """Find the neighbours of the particles, and return them with the seconds that this took.

    A core of a CPU may work on a mini-batch of its own. Mini-batches are repeated until every core has one.
    """
    count = trajectories.members.shape[1]
    cores = machine_cores() if jax.default_backend() == "cpu" else 1
    if count < cores:
        trajectories = jax.tree.map(lambda leaf: leaf[:, np.arange(cores) % count], trajectories)

    def measure() -> Measured:
        ready = plan.ready(trajectories, units_of_particles(policies), keys=keys)
        return Measured(ready, neighbours_of_samples(ready, plan.settings.neighbours))

    measure()  # this call compiles
    return _time_rounds(measure)


def _time_learning(
    learners: Learner,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    piece: PretrainConfig,
    keys: Key[Array, " seeds"],
) -> tuple[PretrainConfig, float]:
    """Learn from the piece. Return the settings of this and its seconds.

    Only some of the iterations are done if all would take too long.
    """
    # With a learning rate of 0, no step leaves the trust region.
    timed = partial(dataclasses.replace, piece, learning_rate=0.0, trust_region=math.inf)

    def seconds(config: PretrainConfig) -> float:
        return _time_rounds(lambda: improve_all_seeds(learners, trajectories, neighbourhood, config, keys=keys))[1]

    one = timed(max_off_policy_iterations=1)
    seconds(one)  # this call compiles
    count = min(piece.max_off_policy_iterations, max(1, int(TIMED / seconds(one))))
    some = timed(max_off_policy_iterations=count)
    return some, seconds(some)


def _bytes_at_peak(
    learners: Learner,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    particles: Array,
    share: PretrainConfig,
    keys: Key[Array, " seeds"],
) -> int:
    """Return the bytes that a run needs at its peak, beside those that the process already holds.

    The arrays are those of the piece. The update is compiled for arrays of the size of the run, and XLA tells its
    memory. The trajectories of an epoch stay until the next epoch is done. While trajectories are collected and
    neighbours are listed, they exist twice.
    """

    def enlarge(tree: Any, *axes: int) -> Any:
        shape = lambda leaf: (*axes, *leaf.shape[len(axes) :])  # noqa: E731
        return jax.tree.map(lambda leaf: jax.typeof(leaf).update(shape=shape(leaf)), tree)

    def size_of(tree: Any) -> int:
        return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    axes = share.seeds, share.minibatches
    samples, neighbours, particles = enlarge((trajectories, neighbourhood, particles), *axes)
    improve, settings = improvement_of_all_seeds(share)
    program = improve.lower(
        enlarge(learners, share.seeds), samples, neighbours, settings, enlarge(keys, share.seeds)
    ).compile()
    found = program.memory_analysis()
    learning = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    collecting = 2 * size_of(samples)
    measuring = size_of(samples) + size_of(particles) + 2 * size_of(neighbours)
    evaluation = share.evaluation_batches / share.minibatches * max(collecting, measuring)
    return int(max(size_of(samples) + max(collecting, measuring, learning), evaluation))
