"""Compare the off-policy loop of one epoch with plain PyTorch code, and with a KL that ends at float32's range."""

import dataclasses
import statistics
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from alphamepol import GaussianPolicy, PretrainConfig, make, preset
from alphamepol.algorithms.alphamepol.epoch import improve_all_seeds, improvement_of_all_seeds
from alphamepol.algorithms.alphamepol.start import start_learners, start_pretraining
from alphamepol.algorithms.alphamepol.update import Learner
from alphamepol.estimation import entropy
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.measuring.samples import draw_sample_members, neighbours_of_samples
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.sampling.trajectories import Trajectories
from benchmarks.measuring import Measurement, Seconds, matmul_rate, network_flops, turn_by_turn
from benchmarks.pretraining import learning_passes

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

PART = 6
"""A round times one in so many of the PyTorch iterations, which are all alike."""


def measure(rounds: int) -> list[Measurement]:
    """Measure one seed of gridworld-slope with α = 0.2 and the paper's settings, besides PyTorch in float64."""
    import pytorch_rendition

    config = dataclasses.replace(preset("paper", "gridworld-slope"), seeds=1, alpha=0.2)
    learners, trajectories, keys = _gridworld_samples(config)
    neighbourhood = neighbours_of_samples(trajectories, config.neighbours)
    policy, samples, neighbours = jax.tree.map(lambda leaf: leaf[0], (learners.policy, trajectories, neighbourhood))
    tail_size = risk_tail_count(config.alpha, config.minibatches)
    iterations = config.max_off_policy_iterations // PART

    def ours():
        return improve_all_seeds(learners, trajectories, neighbourhood, config, keys=keys)

    def theirs(iterations: int = iterations) -> pytorch_rendition.Result:
        size = {"tail_size": tail_size, "iterations": iterations}
        return pytorch_rendition.improve(policy, samples, neighbours, config.learning_rate, **size)

    rate = matmul_rate(config.hidden[0])
    seconds = turn_by_turn(rounds, ours=ours, theirs=theirs)
    rate = max(rate, matmul_rate(config.hidden[0]))
    whole = config.max_off_policy_iterations
    # After its iterations the PyTorch code ranks the mini-batches once more: two of the four passes of an iteration.
    scale = whole / (iterations + 0.5)
    passes, formula = learning_passes(config, whole)
    rows = config.trajectories * config.horizon
    floor = passes * rows * network_flops([2, *config.hidden, 2]) / rate
    objective = float(jnp.squeeze(ours()[1].objective_after))
    note = f"after the epoch E^α is {objective:.5f}, PyTorch's {theirs(whole).objectives[-1]:.5f}"
    peers = {"PyTorch, float64": Seconds(*(scale * part for part in dataclasses.astuple(seconds["theirs"])))}
    return [Measurement("off-policy loop, gridworld-slope, α = 0.2", seconds["ours"], floor, formula, peers, note)]


ITERATIONS = 3
"""The off-policy iterations of a round of `measure_exact_kl`."""


def measure_exact_kl(rounds: int) -> list[Measurement]:
    """Measure the cost of a KL that is right where masses underflow.

    The other contestant takes the logarithms of the masses, which end at float32's smallest number. Its steps are the
    same where no mass underflows. With high rates the trust region is left out, so that every iteration is far outside.
    """
    gridworld, ant = (
        dataclasses.replace(preset("paper", name), seeds=1, alpha=0.2, max_off_policy_iterations=ITERATIONS)
        for name in ("gridworld-slope", "ant-stairs")
    )
    far = {"trust_region": 1e9}
    cases = {
        "gridworld-slope, k = 30": gridworld,
        "gridworld-slope, k = 30, α = 1": dataclasses.replace(gridworld, alpha=1.0),
        "gridworld-slope, k = 30, rate 1e-2": dataclasses.replace(gridworld, learning_rate=1e-2, **far),
        "like the Ant, k = 500 of 2000": ant,
        "like the Ant, k = 500 of 2000, rate 1e-3": dataclasses.replace(ant, learning_rate=1e-3, **far),
    }
    return [_measure_exact_kl_of_case(name, config, rounds) for name, config in cases.items()]


def _measure_exact_kl_of_case(name: str, config: PretrainConfig, rounds: int) -> Measurement:
    learners, trajectories, keys = (_ant_samples if name.startswith("like") else _gridworld_samples)(config)
    neighbourhood = neighbours_of_samples(trajectories, config.neighbours)
    improve, settings = improvement_of_all_seeds(config)
    given = learners, trajectories, neighbourhood, settings, keys
    exact = jax.jit(lambda *given: improve.__wrapped__(*given)).lower(*given).compile()
    with mock.patch.object(entropy, "log_masses_for_kl", lambda neighbourhood, log_weights, masses: jnp.log(masses)):
        floored = jax.jit(lambda *given: improve.__wrapped__(*given)).lower(*given).compile()
    seconds: dict[str, list[tuple[float, float]]] = {"exact": [], "floored": []}
    for number in range(rounds + 1):
        contestants = [("exact", exact), ("floored", floored)]
        for contestant, compiled in contestants if number % 2 else reversed(contestants):
            start = time.perf_counter(), time.process_time()
            jax.block_until_ready(compiled(*given))
            if number > 0:
                seconds[contestant].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    (walls, processors), (other_walls, other_processors) = (zip(*part, strict=True) for part in seconds.values())
    report, other = exact(*given)[1], floored(*given)[1]
    kls = f"KL {float(report.kl[0]):.4g} and {float(other.kl[0]):.4g} after {int(report.iterations[0])} iterations"
    note = (
        f"exact over floored in each of {rounds} rounds: {_spread(walls, other_walls)}; "
        f"in seconds of processors: {_spread(processors, other_processors)}; {kls}"
    )
    return Measurement(name, Seconds.of(walls), peers={"floored KL": Seconds.of(other_walls)}, note=note)


def _spread(ours: tuple[float, ...], others: tuple[float, ...]) -> str:
    ratios = [one / other for one, other in zip(ours, others, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"median {statistics.median(ratios):.3f}, quartiles {low:.3f} and {high:.3f}"


Samples = tuple[Learner, Trajectories, Key[Array, " seeds"]]


def _gridworld_samples(config: PretrainConfig) -> Samples:
    """Return the learners, the trajectories and the keys of epoch 0 of gridworld-slope."""
    environment_class = make("gridworld-slope")
    state = start_pretraining(environment_class, config)
    members, keys = draw_sample_members(state.keys, 0, environment_class.probabilities, config.minibatches)
    size = {"batch": config.batch, "horizon": config.horizon, "keys": keys}
    return state.learners, collect_with_sampler(state.learners.policy, environment_class, members, **size), keys


def _ant_samples(config: PretrainConfig) -> Samples:
    """Return samples with the sizes of an Ant's epoch, without MuJoCo: random observations, and random walks."""
    random = np.random.default_rng(0)
    shape = (1, config.minibatches, config.batch, config.horizon)
    policies: Any = jax.tree.map(
        lambda leaf: leaf[None], GaussianPolicy(29, 8, config.hidden, config.initial_log_std, key=jax.random.key(0))
    )
    perceived = jnp.asarray(random.standard_normal((*shape, 29)), jnp.float32)
    policy = jax.tree.map(lambda leaf: leaf[0], policies)
    means = jax.lax.map(policy.network_of_rows, perceived.reshape(-1, 2000, 29)).reshape(*shape, 8)
    noise = jnp.asarray(random.standard_normal(means.shape), jnp.float32)
    trajectories = Trajectories(
        perceived=perceived,
        actions=means + jnp.exp(config.initial_log_std) * noise,
        particles=jnp.asarray(np.cumsum(random.standard_normal((*shape, 2)), axis=3), jnp.float32),
        valid=jnp.ones(shape, bool),
        members=jnp.zeros(shape[:2], int),
    )
    return start_learners(policies), trajectories, jax.random.split(jax.random.key(0), 1)
