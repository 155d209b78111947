"""Compare an iteration of MAML and an epoch of DIAYN with their floors."""

import dataclasses

import jax

from alphamepol import make
from alphamepol.algorithms.diayn.epoch import (
    run_diayn_epoch,
    sac_settings_of_diayn_epoch,
    start_diayn_epochs,
    world_of_diayn_epoch,
)
from alphamepol.algorithms.maml.iteration import run_maml_iteration, start_maml_iterations
from alphamepol.algorithms.maml.tasks import drawing_of_maml_tasks
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.algorithms.metatraining.presets import metatraining_preset
from alphamepol.compute.stopwatch import LEARNING, SAMPLING, Stopwatch
from alphamepol.environments.environment_class import EnvironmentClass
from benchmarks.measuring import Measurement, matmul_rate, network_flops, turn_by_turn

CLASS = "gridworld-slope"


def measure(rounds: int) -> list[Measurement]:
    """Measure one seed and a tenth of the work on a CPU, or eight seeds and all of the work on an accelerator."""
    on_cpu = jax.default_backend() == "cpu"
    chosen = {"seeds": 1, "tasks": 2, "steps": 100} if on_cpu else {"seeds": 8}
    config = dataclasses.replace(metatraining_preset("paper", CLASS), **chosen)
    environment_class = make(CLASS)
    assert isinstance(environment_class, EnvironmentClass)
    maml_config, diayn_config = (dataclasses.replace(config, method=method) for method in ("maml-r", "diayn"))
    rate = matmul_rate(config.hidden[0])
    seconds = turn_by_turn(
        rounds, maml=maml(environment_class, maml_config), diayn=diayn(environment_class, diayn_config)
    )
    rate = max(rate, matmul_rate(config.hidden[0]))
    seeds = f"{config.seeds} seed{'s' if config.seeds > 1 else ''}"
    maml_floor, diayn_floor = (
        config.seeds * flops / rate for flops in (maml_flops(maml_config, 2, 2), diayn_flops(diayn_config, 2, 2))
    )
    updates = "an update: 4 passes of the actor, 6 of each critic, 3 of the discriminator"
    return [
        Measurement(
            f"MAML, an iteration of {config.tasks} tasks, {seeds}",
            seconds["maml"],
            maml_floor,
            f"{maml_passes(maml_config)} passes over half of the rows",
        ),
        Measurement(f"DIAYN, {config.steps} updates, {seeds}", seconds["diayn"], diayn_floor, updates),
    ]


def maml(environment_class: EnvironmentClass, config: MetatrainConfig):
    drawing = drawing_of_maml_tasks(environment_class, config)
    state, number = start_maml_iterations(environment_class, config), 0

    def iterate() -> None:
        nonlocal state, number
        stopwatch = Stopwatch(SAMPLING, LEARNING)
        state, _ = run_maml_iteration(state, number, environment_class, drawing, config, stopwatch)
        number += 1

    return iterate


def diayn(environment_class: EnvironmentClass, config: MetatrainConfig):
    world, settings = (
        world_of_diayn_epoch(environment_class, config),
        sac_settings_of_diayn_epoch(environment_class, config),
    )
    state, number = start_diayn_epochs(environment_class, config), 0

    def iterate() -> None:
        nonlocal state, number
        state, _ = run_diayn_epoch(state, number, world, settings, config, Stopwatch(SAMPLING, LEARNING))
        number += 1

    return iterate


def maml_passes(config: MetatrainConfig) -> int:
    """Count the passes of an iteration. A pass goes over all rows before the inner step, or over all rows after it.

    - Sampling takes two passes.
    - The inner step (3 passes, forward and backward) is taken twice, once for its derivative.
    - The gradient goes back through the adapted policy and through the inner step (6 + 2 + 1).
    - Each iteration of conjugate gradient takes a product with a Hessian (6) and one with the network's Jacobian (2),
      each there and back. A product with the Hessian is the change of a forward and a backward pass, in which each
      product has two factors.
    - Trying the step takes the inner step (3) and a forward pass (1).
    """
    products = config.conjugate_gradient_iterations
    return 2 + 2 * 3 + (6 + 2 + 1) + products * (6 + 2 + 2 + 6) + (3 + 1)


def maml_flops(config: MetatrainConfig, observations: int, actions: int) -> float:
    """Return the FLOPs of an iteration of one seed."""
    rows = config.tasks * config.trajectories * config.horizon
    return maml_passes(config) * rows * network_flops([observations, *config.hidden, actions])


def diayn_flops(config: MetatrainConfig, observations: int, actions: int) -> float:
    """Return the FLOPs of the updates of an epoch of one seed. Acting is left out: it is one row per update.

    - The actor goes forward at both ends of a step, and backward (2) at one of them: 4 passes.
    - Each critic goes forward for the target, forward and backward (2) for its own loss, and forward and backward to
      the action (1) for the actor's loss: 6 passes.
    - The discriminator goes forward and backward (2): 3 passes.
    """
    told = observations + config.skills
    actor = network_flops([told, *config.hidden, 2 * actions])
    critic = network_flops([told + actions, *config.hidden, 1])
    discriminator = network_flops([observations, *config.hidden, config.skills])
    return config.steps * config.batch * (4 * actor + 2 * 6 * critic + 3 * discriminator)
