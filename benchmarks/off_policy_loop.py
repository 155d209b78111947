"""Compare the off-policy loop of one epoch with plain PyTorch code in float64, one mini-batch after the other."""

import dataclasses
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

from alphamepol import make, preset
from alphamepol.algorithms.alphamepol.epoch import improve_all_seeds
from alphamepol.algorithms.alphamepol.start import start_pretraining
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.measuring.samples import draw_sample_members, neighbours_of_samples
from alphamepol.sampling.sampler import collect_with_sampler
from benchmarks.measuring import Measurement, Seconds, matmul_rate, network_flops, turn_by_turn
from benchmarks.pretraining import learning_passes

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

PART = 6
"""A round times one in so many of the PyTorch iterations, which are all alike."""


def measure(rounds: int) -> list[Measurement]:
    """Measure one seed of gridworld-slope with α = 0.2 and the paper's settings."""
    import pytorch_rendition

    config = dataclasses.replace(preset("paper", "gridworld-slope"), seeds=1, alpha=0.2)
    environment_class = make("gridworld-slope")
    state = start_pretraining(environment_class, config)
    members, keys = draw_sample_members(state.keys, 0, environment_class.probabilities, config.minibatches)
    size = {"batch": config.batch, "horizon": config.horizon, "keys": keys}
    trajectories = collect_with_sampler(state.learners.policy, environment_class, members, **size)
    neighbourhood = neighbours_of_samples(trajectories, config.neighbours)
    policy, samples, neighbours = jax.tree.map(
        lambda leaf: leaf[0], (state.learners.policy, trajectories, neighbourhood)
    )
    tail_size = risk_tail_count(config.alpha, config.minibatches)
    iterations = config.max_off_policy_iterations // PART

    def ours():
        return improve_all_seeds(state.learners, trajectories, neighbourhood, config, keys=keys)

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
