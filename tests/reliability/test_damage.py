"""Test files that were cut, changed, emptied or removed.

The newest intact checkpoint is used, or one sentence says what is wrong. A resumed run gives the results of an
uninterrupted run, or none.
"""

import dataclasses
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.reliability.kill import differences, products

from alphamepol import InputError, PretrainConfig, pretrain
from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.reproduction.store import read_stored_runs
from alphamepol.runs.folder import PROVENANCE
from alphamepol.runs.sources import read_source

EPOCHS, EVERY = 6, 2
EVALUATION, POLICY = "evaluation.safetensors", "policy/seed-0.safetensors"


def truncate(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def empty(path: Path, chance: random.Random) -> None:
    path.write_bytes(b"")


def remove(path: Path, chance: random.Random) -> None:
    path.unlink()


DAMAGES = (truncate, flip, empty, remove)


@pytest.fixture(scope="module")
def config(tiny: PretrainConfig) -> PretrainConfig:
    return dataclasses.replace(tiny, epochs=EPOCHS, checkpoint_every=EVERY)


@pytest.fixture(scope="module")
def whole(config: PretrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain("gridworld-slope", config, folder=tmp_path_factory.mktemp("whole") / "run", quiet=True).folder


@pytest.fixture
def begun(whole: Path, tmp_path: Path) -> Path:
    """Return a run that was killed after its last epoch but one.

    It has a line of metrics after its newest checkpoint.
    """
    folder = shutil.copytree(whole, tmp_path / "begun")
    for path in [folder / "summary.json", folder / "evaluation.safetensors", *(folder / "policy").iterdir()]:
        path.unlink()
    for path in (folder / "checkpoints").glob(f"epoch-{EPOCHS:06d}.*"):
        path.unlink()
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[: EPOCHS - 1]))
    return folder


def resume(folder: Path, config: PretrainConfig) -> None:
    pretrain("gridworld-slope", config, folder=folder, resume=True)


def test_a_run_that_was_cut_goes_on(begun: Path, whole: Path, config: PretrainConfig) -> None:
    resume(begun, config)
    assert differences(products(begun), products(whole)) == []


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_a_damaged_checkpoint_is_passed_over(
    suffix: str, damage: Callable, begun: Path, whole: Path, config: PretrainConfig, capsys
) -> None:
    newest = begun / "checkpoints" / f"epoch-000004.{suffix}"
    damage(newest, random.Random(0))
    resume(begun, config)
    said = capsys.readouterr().out.replace("\n", " ")
    assert "checkpoint epoch-000004 is damaged, or was not finished, and was passed over" in said
    assert "no checkpoint is intact: starting again from epoch 0" in said
    assert differences(products(begun), products(whole)) == []


def test_what_is_left_of_a_deleted_checkpoint_goes(whole: Path, config: PretrainConfig, tmp_path: Path) -> None:
    """The run was killed after its last epoch, while it deleted the files of an old checkpoint."""
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "summary.json").unlink()
    shutil.copy(folder / f"checkpoints/epoch-{EPOCHS:06d}.safetensors", folder / "checkpoints/epoch-000002.safetensors")
    resume(folder, config)
    assert differences(products(folder, every_checkpoint=True), products(whole, every_checkpoint=True)) == []


def test_the_older_checkpoint_is_used_if_the_newest_is_damaged(
    whole: Path, config: PretrainConfig, tmp_path: Path, capsys
) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "summary.json").unlink()
    flip(folder / "checkpoints" / f"epoch-{EPOCHS:06d}.safetensors", random.Random(0))
    resume(folder, config)
    said = capsys.readouterr().out
    assert f"continuing after epoch {EPOCHS - EVERY} of {EPOCHS}" in said
    assert differences(products(folder), products(whole)) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_lost_metrics_are_not_passed_over(damage: Callable, begun: Path, config: PretrainConfig) -> None:
    path = begun / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]))  # the lines up to the checkpoint
    damage(path, random.Random(0))
    with pytest.raises(InputError, match=r"metrics\.jsonl is damaged or not there, and the numbers"):
        resume(begun, config)


@pytest.mark.parametrize("seed", range(20))
def test_changed_settings_are_refused_or_harmless(seed: int, begun: Path, whole: Path, config: PretrainConfig) -> None:
    flip(begun / "config.json", random.Random(seed))
    try:
        resume(begun, config)
    except InputError:
        return
    found, expected = products(begun), products(whole)
    # The byte may belong to the versions, the commit or the like, which decide nothing and are not repaired.
    decides = [part for part in expected["config.json"] if part not in PROVENANCE]
    for files in (found, expected):
        files["config.json"] = [files["config.json"].get(part) for part in decides]
    assert differences(found, expected) == []


def test_a_run_of_an_older_version_has_the_defaults_of_new_settings(
    begun: Path, whole: Path, config: PretrainConfig
) -> None:
    described = json.loads((begun / "config.json").read_text())
    for name in ("encoder_seed", "gradient_share"):
        del described["config"][name]
    (begun / "config.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match="another encoder_seed: 0, not 3"):
        resume(begun, dataclasses.replace(config, encoder_seed=3))
    resume(begun, config)
    found, expected = products(begun), products(whole)
    assert differences(found, expected) in ([], ["config.json"])


@pytest.mark.parametrize("damage", [truncate, empty, remove])
def test_lost_settings_are_told(damage: Callable, begun: Path, config: PretrainConfig) -> None:
    damage(begun / "config.json", random.Random(0))
    with pytest.raises(InputError, match=r"config\.json"):
        resume(begun, config)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["summary.json", EVALUATION, POLICY, "config.json"])
@pytest.mark.parametrize("seed", range(5))
def test_readers_say_what_is_wrong(name: str, damage: Callable, seed: int, whole: Path, tmp_path: Path) -> None:
    """The readers of a finished run are evaluation, fine-tuning and the report."""
    folder = shutil.copytree(whole, tmp_path / "run")
    damage(folder / name, random.Random(seed))
    said = []
    for read in (
        read_source,
        lambda folder: read_stored_runs([folder]),
        lambda folder: load_evaluation(folder / EVALUATION),
    ):
        try:
            read(folder)
        except InputError as error:
            said.append(str(error))
    # A flipped bit in JSON may be harmless. Without a summary, the run has not ended, and its checkpoints are read.
    if not (damage is flip and name.endswith(".json")) and not (damage is remove and name == "summary.json"):
        assert said
    assert all(str(folder) in sentence for sentence in said)
