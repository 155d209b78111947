"""Print how much results on four devices differ from those on one. test_device_count.py runs this as a process."""

import dataclasses
import gc
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import alphamepol as am
from alphamepol.algorithms.alphamepol.epoch import run_epoch
from alphamepol.algorithms.alphamepol.start import start_pretraining
from alphamepol.algorithms.finetuning.finetuner import find_finetuner
from alphamepol.algorithms.finetuning.iteration import Plan, run_finetuning_iteration, start_finetuning_iterations
from alphamepol.compute.devices import lay_over_devices, using_devices
from alphamepol.compute.stopwatch import LEARNING, NEIGHBOURS, SAMPLING, Stopwatch
from alphamepol.measuring.samples import SamplePlan

gc.freeze()  # conftest.py does the same, but this process does not import it
gc.set_threshold(50_000, 20, 20)

tiny = {"trajectories": 40, "horizon": 20, "neighbours": 4, "hidden": (16, 16), "feature_noise": 0.01}
small = dataclasses.replace(am.preset("quick", "gridworld-slope"), epochs=1, evaluation_batches=1, **tiny)
metatraining = {"horizon": 20, "hidden": (16, 16), "seeds": 2}
# Ten iterations of conjugate gradient would make a rounding error a hundred thousand times larger.
few = {"tasks": 4, "steps": 800, "horizon": 40, "conjugate_gradient_iterations": 3}
finetuning = am.TrpoConfig(iterations=1, hidden=(16, 16), critic_hidden=(8,), **few)
gridworlds = am.make("gridworld-slope")


def numbers(tree) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def difference(one, other, start) -> float:
    """Return the difference of two results, relative to the distance of the second from the start."""
    return float(np.linalg.norm(numbers(one) - numbers(other)) / np.linalg.norm(numbers(other) - numbers(start)))


def epochs(devices: int, **changes):
    """Return the policies before and after two epochs, and the shapes of samples and policies on one device."""
    # The initial mean is not regressed here. The complete runs below regress it.
    config = dataclasses.replace(small, initial_mean="none", **changes)
    plan = SamplePlan.of(gridworlds, config, config.seed_list)
    with using_devices(devices):
        state = lay_over_devices(start_pretraining(gridworlds, config))
        start = state.learners.policy
        for epoch in range(2):
            stopwatch = Stopwatch(SAMPLING, NEIGHBOURS, LEARNING)
            state, _, trajectories, _ = run_epoch(state, epoch, plan, config, stopwatch)
    policies = state.learners.policy
    parts = {"actions": trajectories.actions, "log_std": policies.log_std}
    return start, policies, {name: list(part.addressable_shards[0].data.shape) for name, part in parts.items()}


def iterations(devices: int):
    """Return the policies before and after an iteration of fine-tuning, and their shape on one device."""
    tasks = [am.Goal((0.1 * number, 0.5)) for number in range(4)]
    plan = Plan(gridworlds, "GWN", tasks, finetuning, find_finetuner("trpo"))
    with using_devices(devices):
        state = lay_over_devices(start_finetuning_iterations([], plan))
        start = state.learners.policy
        state = eqx.tree_at(lambda state: state.learners.rewarded, state, lay_over_devices(jnp.ones(4, bool)))
        state, _ = run_finetuning_iteration(state, 0, plan, plan.task_of_rows(), Stopwatch(SAMPLING, LEARNING))
    policies = state.learners.policy
    return start, policies, {"log_std": list(policies.log_std.addressable_shards[0].data.shape)}


def pretrained(folder: Path, devices: int) -> list[bytes]:
    """Return the files of a run.

    On several devices, the run is resumed after its last checkpoint is deleted. On one device, it is not resumed.
    """
    config = dataclasses.replace(small, seeds=4, epochs=2, checkpoint_every=1)
    am.pretrain(gridworlds, config, folder=folder, devices=devices, quiet=True)
    if devices > 1:
        for file in [folder / "summary.json", *(folder / "checkpoints").glob("epoch-000002.*")]:
            file.unlink()
        am.pretrain(gridworlds, config, folder=folder, devices=devices, resume=True, quiet=True)
    return files(folder)


def metatrained(folder: Path, devices: int, config: am.MetatrainConfig) -> list[bytes]:
    am.metatrain(gridworlds, config, folder=folder, devices=devices, quiet=True)
    return files(folder)


def files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("policy/*")) + sorted(folder.glob("checkpoints/*.saf*"))]


cases = {
    "mini-batches": partial(epochs, seeds=1),
    "mini-batches of MEPOL": partial(epochs, seeds=1, alpha=1.0),
    "tasks": iterations,
}
maml = am.MetatrainConfig(method="maml-r", iterations=1, tasks=2, trajectories=2, **metatraining)
runs = {"pretrain": partial(pretrained, devices=4), "MAML": partial(metatrained, devices=2, config=maml)}
# The complete runs show that seeds learn the same on several devices, to the bit.
report: dict[str, Any] = {"seeds": epochs(4, seeds=4)[2]}
for name, case in cases.items():
    (_, laid, shares), (start, alone, _) = case(4), case(1)
    report[name] = {"difference": difference(laid, alone, start), **shares}
for name, run in runs.items():
    with tempfile.TemporaryDirectory() as folder:
        report[name] = {"same files": run(Path(folder) / "several") == run(Path(folder) / "one", devices=1)}
print(json.dumps(report))
