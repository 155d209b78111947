"""An iteration of MAML and an epoch of DIAYN against the machine's floor: `python -m benchmarks.metatrain --help`.

Everything is measured in one run, so that ratios mean something on a noisy machine.
"""

import argparse
import dataclasses
import json
import resource
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise

import jax

from alphamepol import make
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.runs.checks import policy_shape
from alphamepol.runs.config import MetatrainConfig
from alphamepol.runs.diayn_epoch import run_diayn_epoch, sac_settings, start_diayn, world_of
from alphamepol.runs.folder import device_name
from alphamepol.runs.meta_iteration import run_meta_iteration, start_maml
from alphamepol.runs.metatrain import task_drawing
from alphamepol.runs.presets import metatraining_preset
from alphamepol.runs.stopwatch import COMPILATION, LEARNING, SAMPLING, Stopwatch
from benchmarks.pretrain_epoch import matmul_rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--class", dest="class_name", default="gridworld-slope")
    parser.add_argument("--method", choices=("maml-r", "diayn"), default="maml-r")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=20, help="of MAML")
    parser.add_argument("--steps", type=int, default=1000, help="of an epoch of DIAYN")
    parser.add_argument("--rounds", type=int, default=5, help="timed iterations or epochs, after one that compiles")
    arguments = parser.parse_args()

    chosen = {"method": arguments.method, "seeds": arguments.seeds, "tasks": arguments.tasks, "steps": arguments.steps}
    config = dataclasses.replace(metatraining_preset("paper", arguments.class_name), **chosen)
    environment_class = make(arguments.class_name)
    assert isinstance(environment_class, EnvironmentClass)
    rate = matmul_rate(config.hidden[0])
    stopwatch = Stopwatch(SAMPLING, LEARNING)
    measure, count = (maml, maml_flops) if arguments.method == "maml-r" else (diayn, diayn_flops)
    rounds = measure(environment_class, config, arguments.rounds, stopwatch)
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    shape = policy_shape(environment_class)
    assert shape.image is None, "the convolutions of images are not counted"
    flops = config.seeds * count(config, shape.observation_size, shape.action_size)
    print(
        json.dumps(
            {
                "device": device_name(),
                "class": arguments.class_name,
                "method": config.method,
                "seeds": config.seeds,
                "median_seconds": medians,
                "slowest_seconds": max(one["whole"] for one in rounds),
                "compilation_seconds": stopwatch.seconds[COMPILATION],
                "matmul_gflops_per_second": rate / 1e9,
                "floor_seconds": flops / rate,
                "share_of_matmul_rate": flops / rate / medians["whole"],
                "peak_memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
                "peak_device_memory_gib": (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**30,
            },
            indent=2,
        )
    )


def maml(environment_class: EnvironmentClass, config: MetatrainConfig, rounds: int, stopwatch: Stopwatch):
    drawing = task_drawing(environment_class, config)
    state = start_maml(environment_class, config)
    found = []
    for number in range(rounds + 1):
        lap, start = stopwatch.lap(), time.perf_counter()
        state, _ = run_meta_iteration(state, number, environment_class, drawing, config, stopwatch)
        found.append(lap() | {"whole": time.perf_counter() - start})
    return found[1:]


def diayn(environment_class: EnvironmentClass, config: MetatrainConfig, rounds: int, stopwatch: Stopwatch):
    state = start_diayn(environment_class, config)
    world, settings = world_of(environment_class, config), sac_settings(environment_class, config)
    found = []
    for number in range(rounds + 1):
        start = time.perf_counter()
        state, _ = run_diayn_epoch(state, number, world, settings, config, stopwatch)
        found.append({"whole": time.perf_counter() - start})
    return found[1:]


def maml_flops(config: MetatrainConfig, observations: int, actions: int) -> float:
    """Of an iteration of one seed, in passes over all rows before or after the inner step.

    To sample, twice; the inner step (forward and backward) twice, once for its derivative; the gradient, back through
    both; for each iteration of conjugate gradient a product with a Hessian (the change of a forward and a backward
    pass, each product being of two factors: 6) there and back, and with the network's Jacobian (2) there and back; to
    try the step, the inner step and a forward pass.
    """
    products = config.conjugate_gradient_iterations
    passes = 2 + 2 * 3 + (6 + 2 + 1) + products * (6 + 2 + 2 + 6) + (3 + 1)
    rows = config.tasks * config.trajectories * config.horizon
    return passes * rows * network_flops([observations, *config.hidden, actions])


def diayn_flops(config: MetatrainConfig, observations: int, actions: int) -> float:
    """Of an epoch of one seed: what each update takes of its batch; acting is one row beside it.

    The actor forward at both ends of a step, and backward at one; each critic forward for the aim, for its own loss and
    backward (2), and for the actor's, and backward to the action (1); the discriminator forward and backward.
    """
    told = observations + config.skills
    actor = network_flops([told, *config.hidden, 2 * actions])
    critic = network_flops([told + actions, *config.hidden, 1])
    discriminator = network_flops([observations, *config.hidden, config.skills])
    return config.steps * config.batch * (4 * actor + 2 * 6 * critic + 3 * discriminator)


def network_flops(sizes: Sequence[int]) -> float:
    return 2.0 * sum(a * b for a, b in pairwise(sizes))


if __name__ == "__main__":
    main()
