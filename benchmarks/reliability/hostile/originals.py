"""Make the real inputs that are mutated: tiny runs of every command, exported policies, and runs that have not ended.

`python -m benchmarks.reliability.hostile.originals FOLDER [NAME …]` makes them, in about a minute.
"""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
OWN = "own/carts.py"
"""The program of a class of the user's own, as a path in the folder of the originals."""
TINY = "--horizon 6 --hidden 4 --checkpoint-every 1 --keep-checkpoints 3 --log none"
PRETRAINING = f"{TINY} --trajectories 4 --batch 2 --neighbours 2 --evaluation-batches 1 --feature-noise 0.01 --epochs 3"
TUNING = f"{TINY} --tasks 2 --steps 12 --critic-hidden 4 --critic-passes 1 --iterations 3"
META = f"{TINY} --iterations 3 --epochs 21 --tasks 2 --trajectories 2 --steps 4 --warm-up 4 --replay 100"
META += " --environments 2 --skills 2 --batch 4"
ON_SLOPE = f"pretrain gridworld-slope --preset quick {PRETRAINING}"
RUNS = {
    "slope": f"{ON_SLOPE} --seeds 2",
    "recurrent": f"{ON_SLOPE} --memory recurrent --recurrent-units 3",
    "last": f"{ON_SLOPE} --memory last --normalise",
    "minigrid": f"pretrain minigrid-counterexample --preset quick {PRETRAINING}",
    "carts": f"pretrain {OWN}:carts {PRETRAINING} --normalise",
    "tuned": f"finetune slope --member GWN {TUNING}",
    "compared": f"finetune random slope slope/policy/seed-0.safetensors --member GWN {TUNING}",
    "maml": f"metatrain gridworld-slope --preset quick --method maml-r {META}",
    "diayn": f"metatrain gridworld-slope --preset quick --method diayn {META}",
    "further": f"{ON_SLOPE} --init slope --checkpoint 2",
}
"""The commands of the runs, by the names of their folders. Later runs begin from earlier ones."""
SWEEP = f"sweep gridworld-slope --preset quick {PRETRAINING} --alpha 0.5 1 --memory none last --seeds 2".replace(
    "--log none", ""
)
"""The command of the sweep, without its folder."""
TINY_REPRODUCTION = {"coinciding": "noise"}
"""The settings of the tiny reproduction, besides those of `miniatures.shrink`."""
ENDING = ("summary.json", "evaluation.safetensors", "policy", "figures", "discriminator")
"""The files that a run writes at its end."""


def make_originals(folder: Path, names: tuple[str, ...] = ()) -> None:
    """Make the originals in a folder, in another process, unless they are there. By default, all of them are made."""
    if (folder / "made").exists():
        return
    words = [sys.executable, "-m", "benchmarks.reliability.hostile.originals", str(folder), *names]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src"), str(ROOT / "tests/support")])
    subprocess.run(words, check=True, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.DEVNULL)
    (folder / "made").touch()


def run_original_commands(folder: Path, names: tuple[str, ...]) -> None:
    """Run the commands in a folder, and derive the inputs that no command writes."""
    from alphamepol.cli.main import main

    (folder / "own").mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).parents[1] / "carts.py", folder / OWN)
    os.chdir(folder)
    for name in names or RUNS:
        status = main([*RUNS[name].split(), "--folder", name])
        assert status == 0, f"{name} ended with status {status}"
    for name in ("slope", "tuned", "maml", "diayn", "carts", "further"):
        if (folder / name).exists():
            _undo_end_of_run(folder / name, folder / f"{name}-begun")
    for name, options in {"policy": "slope", "last": "last", "discrete": "minigrid"}.items():
        if (folder / options).exists():
            suffixes = ["sb3 zip", "safetensors safetensors"] if name != "discrete" else ["safetensors safetensors"]
            for to, suffix in (words.split() for words in suffixes):
                assert main(["export", options, f"{name}.{suffix}", "--to", to]) == 0
    if not names:
        assert main([*SWEEP.split(), "--folder", "sweep"]) == 0
        _reproduce_tiny(folder / "reproduction")
        _demonstrate_tiny(folder / "demo")


def _undo_end_of_run(run: Path, folder: Path) -> None:
    """Copy a run as if it had been killed after its last step but one. A metrics line follows its newest checkpoint."""
    shutil.copytree(run, folder)
    for name in ENDING:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    last = max(int(path.stem.split("-")[1]) for path in (folder / "checkpoints").glob("*.json"))
    for path in (folder / "checkpoints").glob(f"*-{last:06d}*"):
        path.unlink()


def _reproduce_tiny(folder: Path) -> None:
    import pytest
    from miniatures import shrink

    from alphamepol.cli.main import main

    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, TINY_REPRODUCTION)
        assert main(["reproduce", "slope-finetune", "--folder", str(folder)]) == 0


def _demonstrate_tiny(folder: Path) -> None:
    import pytest

    from alphamepol.cli.main import main
    from alphamepol.reproduction import demo

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "preset", tiny_demo_preset)
        assert main(["demo", "--folder", str(folder)]) == 0


def tiny_demo_preset(name: str, class_name: str):
    """Return the settings of a tiny demo, in place of those of the quick preset."""
    from alphamepol.algorithms.alphamepol.presets import preset

    sizes = {"horizon": 6, "hidden": (4,), "trajectories": 4, "batch": 2, "neighbours": 2, "evaluation_batches": 1}
    return dataclasses.replace(preset("quick", class_name), **sizes, epochs=2, feature_noise=0.01, checkpoint_every=1)


if __name__ == "__main__":
    run_original_commands(Path(sys.argv[1]).resolve(), tuple(sys.argv[2:]))
