"""Test run folders from others: links, pipes, forged sizes, edited fields. Every command answers with a sentence."""

import dataclasses
import hashlib
import io
import json
import os
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from alphamepol import GaussianPolicy, InputError, PretrainConfig, TrpoConfig, export, load_policy, pretrain
from alphamepol.cli.main import main
from alphamepol.figures.curves import draw_learning_curves
from alphamepol.files.arrays import pack_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import LARGEST_JSON, MOST_JSON_VALUES, from_json, read_json, value_has_type
from alphamepol.files.locks import folder_lock_held
from alphamepol.files.reading import refusing_odd_files
from alphamepol.policies.files import FORMAT
from alphamepol.runs.checkpoints import load_newest_checkpoint, save_checkpoint, saved_checkpoints
from alphamepol.runs.description import check_run_summary
from alphamepol.runs.metrics import JsonLinesLogger, last_metrics_line, read_metrics, thinned_metrics
from alphamepol.settings.conversion import settings_to_dict

SECRET = b"\x89PNG\r\n\x1a\n the secret"


@pytest.fixture(scope="module")
def original(tiny: PretrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain("gridworld-slope", tiny, folder=tmp_path_factory.mktemp("runs") / "run", quiet=True).folder


@pytest.fixture
def run(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a finished run. The current folder is a new one, too."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(original, tmp_path / "run")


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a secret, which nothing may read into a page or change."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.png").write_bytes(SECRET)
    return folder


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def refuses(arguments: list[str], capsys: pytest.CaptureFixture[str], *words: str) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("alphamepol: ")
    assert all(word in said for word in words), said


def resume(run: Path, tiny: PretrainConfig, epochs: int = 100) -> None:
    """Continue the run for more epochs, in Python."""
    pretrain("gridworld-slope", dataclasses.replace(tiny, epochs=epochs), folder=run, resume=True, quiet=True)


# --- A run folder does not reach outside itself.


def test_a_linked_figure_is_not_shown(run: Path, outside: Path, capsys) -> None:
    (run / "figures" / "z.png").symlink_to(outside / "secret.png")
    refuses(["report", str(run)], capsys, "z.png is a link")
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("name", ["policy", "checkpoints", "figures", "tensorboard", "metrics.jsonl", ".lock"])
def test_nothing_is_written_through_a_link(
    name: str, run: Path, outside: Path, tiny: PretrainConfig, tmp_path: Path
) -> None:
    target = outside / "target"
    if (run / name).exists():
        shutil.move(run / name, target)
    elif name == ".lock":
        target.write_text("do not cut this")
    (run / name).symlink_to(target)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=f"{name} is a link"):
        resume(run, tiny)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


def test_a_dangling_link_does_not_create_its_target(run: Path, outside: Path, tiny: PretrainConfig) -> None:
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to(outside / "created")
    with pytest.raises(InputError, match="is a link"):
        resume(run, tiny)
    assert not (outside / "created").exists()


@pytest.mark.parametrize("command", ["evaluate", "check"])
def test_results_are_not_written_through_a_link(command: str, run: Path, outside: Path, capsys) -> None:
    folder = "evaluation-gridworld-slope" if command == "evaluate" else "check-gridworld-slope"
    (run / folder).symlink_to(outside)
    arguments = [str(run)] if command == "evaluate" else ["gridworld-slope", str(run)]
    refuses([command, *arguments], capsys, f"{folder} is a link")
    assert [path.name for path in outside.iterdir()] == ["secret.png"]


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path, outside: Path) -> None:
    (tmp_path / ".lock").symlink_to(outside / "secret.png")
    with pytest.raises(InputError, match="is a link"), folder_lock_held(tmp_path):
        pass
    assert (outside / "secret.png").read_bytes() == SECRET


def test_a_written_file_replaces_a_link_and_spares_its_target(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "page.html").symlink_to(outside / "secret.png")
    write_atomically(tmp_path / "page.html", "page")
    assert (tmp_path / "page.html").read_text() == "page"
    assert (outside / "secret.png").read_bytes() == SECRET


def test_temporary_files_are_new_and_cannot_be_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        seen.append(self.name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    write_atomically(tmp_path / "a", "first")
    write_atomically(tmp_path / "a", "second")
    assert len(set(seen)) == 2
    # A file that is already there under the temporary name is an error, and stays as it is.
    monkeypatch.setattr("secrets.token_hex", lambda _: "0")
    taken = tmp_path / seen[0].replace(seen[0].split(".")[1], "0")
    taken.symlink_to(tmp_path / "a")
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "b", "third")
    assert (tmp_path / "a").read_text() == "second"


# --- Reading a file costs what the file is, and no pipe is waited for.


@pytest.mark.parametrize(
    "name", ["config.json", "summary.json", "class.json", "metrics.jsonl", "policy/seed-0.safetensors"]
)
@pytest.mark.parametrize("command", ["evaluate RUN", "report RUN", "export RUN --to safetensors x.safetensors"])
def test_a_pipe_is_not_waited_for(name: str, command: str, run: Path, capsys) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    refuses(command.replace("RUN", str(run)).split(), capsys)


@pytest.mark.parametrize("name", ["config.json", "summary.json", "class.json", "policy/seed-0.safetensors"])
def test_a_gigabyte_is_refused_without_being_read(name: str, run: Path) -> None:
    with (run / name).open("r+b") as file:
        file.truncate(10**9)  # a sparse file, which takes no room
    tracemalloc.start()
    with pytest.raises(InputError):
        export(run, "x.zip", "sb3")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


def test_a_policy_of_a_gigabyte_with_a_wrong_number_is_refused_in_little_memory(tmp_path: Path) -> None:
    """The shapes agree with the header, so that the numbers themselves have to be looked at."""
    inputs = 2**21
    policy = GaussianPolicy(4, 1, [1], key=jax.random.key(0))
    header = {"format": FORMAT, "architecture": policy.architecture | {"observation_size": inputs}}
    small = pack_arrays(policy, header)
    size = int.from_bytes(small[:8], "little")
    described = json.loads(small[8 : 8 + size])
    more = 4 * (inputs - 4)
    for name, array in described.items():
        if name == "__metadata__":
            continue
        if array["shape"] == [1, 4]:
            array["shape"], grown = [1, inputs], array["data_offsets"][0]
    for name, array in described.items():
        if name != "__metadata__":
            start, end = array["data_offsets"]
            array["data_offsets"] = [start + more * (start > grown), end + more * (start >= grown)]
    text = json.dumps(described).encode()
    text += b" " * (-len(text) % 8)
    path = tmp_path / "policy.safetensors"
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + len(small) - 8 - size + more)
        file.seek(8 + len(text) + grown + more)
        file.write(np.float32(np.nan).tobytes())
    tracemalloc.start()
    with pytest.raises(InputError, match="not all finite"):
        load_policy(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * inputs  # the array itself was never allocated


def test_json_with_more_values_than_it_is_worth_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="values"):
        from_json("[" + "{}," * MOST_JSON_VALUES + "{}]")
    (tmp_path / "long.json").write_bytes(b'"' + b"x" * LARGEST_JSON + b'"')
    with pytest.raises(ValueError, match="more than"):
        read_json(tmp_path / "long.json")
    assert from_json("[1, 2]") == [1, 2]


def test_a_number_of_skills_allocates_nothing(run: Path) -> None:
    edit(run / "summary.json", lambda summary: summary.update(skills=10**9))
    with pytest.raises(InputError, match="has no policy file"):
        load_policy(run)


@pytest.mark.parametrize(
    ("field", "value"), [("horizon", 10**9), ("seeds", 10**9), ("hidden", [10**9]), ("trajectories", 10**12)]
)
def test_settings_that_ask_for_too_much_are_refused(field: str, value: Any, run: Path, capsys) -> None:
    edit(run / "config.json", lambda config: config["config"].update({field: value}))
    refuses(["evaluate", str(run)], capsys, field)
    refuses(["report", str(run)], capsys, field)


def test_biases_of_other_layers_allocate_nothing(run: Path, tmp_path: Path) -> None:
    """Two biases of 40 000 numbers would be a layer of six gigabytes."""
    export(run, tmp_path / "policy.zip", "sb3")
    with zipfile.ZipFile(tmp_path / "policy.zip") as old:
        parts = {name: old.read(name) for name in old.namelist()}
    weights = torch.load(io.BytesIO(parts["policy.pth"]), weights_only=True)
    for number in (0, 2):
        weights[f"mlp_extractor.policy_net.{number}.bias"] = torch.zeros(40_000)
    torch.save(weights, buffer := io.BytesIO())
    with zipfile.ZipFile(tmp_path / "wide.zip", "w") as new:
        for name, content in (parts | {"policy.pth": buffer.getvalue()}).items():
            new.writestr(name, content)
    status = Path("/proc/self/status")
    before = _peak_memory(status)
    with pytest.raises(InputError, match="do not fit together"):
        load_policy(tmp_path / "wide.zip")
    assert _peak_memory(status) - before < 5e8


def _peak_memory(status: Path) -> int:
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


def test_a_zip_with_many_parts_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as file:
        for number in range(1001):
            file.writestr(str(number), b"")
    with pytest.raises(InputError, match="more than 1000 parts"):
        load_policy(tmp_path / "many.zip")


def test_flipped_bytes_in_a_deflated_zip_are_noticed(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "policy.zip", "sb3")
    with (
        zipfile.ZipFile(tmp_path / "policy.zip") as old,
        zipfile.ZipFile(tmp_path / "deflated.zip", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert load_policy(tmp_path / "deflated.zip").kind == "gaussian"
    data = bytearray((tmp_path / "deflated.zip").read_bytes())
    with zipfile.ZipFile(tmp_path / "deflated.zip") as file:
        start = file.getinfo("policy.pth").header_offset + 60
    for position in range(start, start + 200, 7):
        data[position] ^= 0xFF
    (tmp_path / "deflated.zip").write_bytes(data)
    with pytest.raises(InputError, match="cannot be read as a policy"):
        load_policy(tmp_path / "deflated.zip")


def test_a_header_that_does_not_fit_its_arrays_is_refused(tmp_path: Path) -> None:
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "a", metadata={"alphamepol": "{}"})
    assert unpack_arrays(tmp_path / "a")[1]["a"].shape == (3,)
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "b", metadata={"alphamepol": "[]"})
    save_file({"a": np.zeros(3, np.int16)}, tmp_path / "c", metadata={"alphamepol": "{}"})
    (tmp_path / "d").write_bytes((2**40).to_bytes(8, "little") + b"{}")
    (tmp_path / "e").write_bytes((2).to_bytes(8, "little") + b"[]")
    for name, because in (("b", "not one of"), ("c", "I16"), ("d", "more than"), ("e", "safetensors")):
        with pytest.raises(ValueError, match=because):
            unpack_arrays(tmp_path / name)


# --- Edited runs are refused with a sentence.


def test_runs_of_equal_names_are_reported_together(run: Path, tmp_path: Path) -> None:
    for parent in ("a", "b"):
        shutil.copytree(run, tmp_path / parent / "x")
    assert main(["report", "a/x", "b/x"]) == 0
    page = Path("report.html").read_text()
    assert "a/x" in page
    assert "b/x" in page


def test_a_run_that_is_given_twice_is_refused(run: Path, capsys) -> None:
    refuses(["report", str(run), str(run)], capsys, "more than once")


def test_runs_whose_members_were_renamed_have_tables_of_their_own(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "other")

    def rename(content: dict[str, Any]) -> None:
        content["members"] = ["easy", "hard"]
        for part in ("entropy", "ceiling"):
            if part in content:
                content[part] = dict(zip(content["members"], content[part].values(), strict=True))

    edit(other / "config.json", rename)
    edit(other / "summary.json", rename)
    (other / "evaluation.safetensors").unlink()
    assert main(["report", str(run), str(other)]) == 0
    page = Path("report.html").read_text()
    assert "GWN" in page
    assert "hard" in page


@pytest.mark.parametrize("init", [5, ["x"], {"a": 1}, "run", "other", ""])
def test_an_init_of_a_wrong_type_or_in_a_circle_ends_in_a_sentence(
    init: Any, run: Path, tmp_path: Path, capsys
) -> None:
    other = shutil.copytree(run, tmp_path / "other")
    edit(run / "config.json", lambda config: config.update(init=init))
    edit(other / "config.json", lambda config: config.update(init="run"))
    status = main(["report", str(run), str(other)])
    assert status == (0 if isinstance(init, str) else 2)
    assert isinstance(init, str) or "init" in capsys.readouterr().err


def test_a_link_that_leads_to_itself_ends_in_a_sentence(run: Path, capsys) -> None:
    Path("circle").symlink_to("circle")
    refuses(["report", str(run), "circle"], capsys, "circle")


@pytest.mark.parametrize("part", ["init", "member"])
def test_a_description_of_fine_tuning_without_a_part_is_refused(part: str, run: Path, capsys) -> None:
    settings = settings_to_dict(TrpoConfig())
    whole = {"command": "finetune", "config": settings, "init": "random", "member": "GWN", "tasks": []}
    edit(run / "config.json", lambda config: config.update(whole))
    edit(run / "config.json", lambda config: config.pop(part))
    refuses(["report", str(run)], capsys, f"it has no {part}")


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("config.json", "members", 5),
        ("config.json", "command", ["pretrain"]),
        ("config.json", "class", {"a": 1}),
        ("config.json", "versions", []),
        ("config.json", "command_line", {}),
        ("summary.json", "members", 5),
        ("summary.json", "members", ["GWS", "GWN", "x"]),
        ("summary.json", "probabilities", ["a", "b"]),
        ("summary.json", "entropy", {"GWS": [1.0]}),
        ("summary.json", "entropy", {"GWS": [1.0], "GWN": "x"}),
        ("summary.json", "seeds", 7),
        ("summary.json", "ceiling", {}),
        ("summary.json", "mean", "x"),
        ("summary.json", "units", "metres"),
        ("summary.json", "seconds", 3),
    ],
)
def test_edited_fields_are_refused(name: str, field: str, value: Any, run: Path, capsys) -> None:
    edit(run / name, lambda content: content.update({field: value}))
    refuses(["report", str(run)], capsys, field.rstrip("s") if field != "ceiling" else "ceiling")


@pytest.mark.parametrize("field", ["units", "time_limit", "maps"])
def test_a_class_record_without_a_part_is_refused(field: str, run: Path, capsys) -> None:
    edit(run / "class.json", lambda record: record.pop(field))
    refuses(["export", str(run), "--to", "sb3", "x.zip"], capsys, f"it has no {field}")


def test_metrics_that_cannot_be_read_leave_the_curves_empty(tmp_path: Path) -> None:
    draw_learning_curves([], ["GWS", "GWN"], None, tmp_path)
    assert (tmp_path / "learning-curves.csv").read_text().splitlines() == ["member,epoch,mean,lowest,highest,seeds"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("units", [0.0]),
        ("units", "x"),
        ("entropy_ceilings", [1.0]),
        ("observation_space", {"kind": "Box", "shape": [10**6, 10**6], "dtype": "float32", "low": 0, "high": 1}),
        ("observation_space", {"kind": "Box", "shape": [2], "dtype": "V1000000000", "low": 0, "high": 1}),
        ("observation_space", {"kind": "Discrete", "n": 10**30}),
        ("action_space", {"kind": "Discrete", "n": 10**9}),
        ("action_space", {"kind": "Box", "shape": [5], "dtype": "float32", "low": -1, "high": 1}),
    ],
)
def test_a_forged_class_record_is_refused(field: str, value: Any, run: Path, capsys) -> None:
    edit(run / "class.json", lambda record: record.update({field: value}))
    refuses(["export", str(run), "--to", "sb3", "x.zip"], capsys)
    assert not Path("x.zip").exists()


def write_with_right_checksum(path: Path, notes: dict[str, Any]) -> None:
    """Write the notes of a checkpoint. Only their content can tell then that they are forged."""
    notes.pop("sha256")
    data = path.with_suffix(".safetensors").read_bytes()
    total = hashlib.sha256(data + json.dumps(notes, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({"sha256": total, **notes}))


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:-1],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [lines[0] | {"objective": "x"}, *lines[1:]],
        lambda lines: [lines[0] | {"tail_share": [1.0]}, *lines[1:]],
        lambda lines: [lines[0] | {"epoch": 1}, *lines[1:]],
    ],
)
def test_forged_metrics_with_a_right_checksum_are_refused(change, run: Path, tiny: PretrainConfig, capsys) -> None:
    lines = change(list(read_metrics(run / "metrics.jsonl")))
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    (run / "metrics.jsonl").write_bytes(text)
    for path in (run / "checkpoints").glob("*[0-9].json"):
        notes = json.loads(path.read_text())
        notes["metrics"] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
        write_with_right_checksum(path, notes)
    with pytest.raises(InputError, match=r"metrics\.jsonl is damaged or not there"):
        resume(run, tiny)


def test_a_checkpoint_without_keys_is_passed_over(run: Path, tiny: PretrainConfig, capsys) -> None:
    (newest,) = sorted((run / "checkpoints").glob("*.json"))[-1:]
    notes = json.loads(newest.read_text())
    notes.pop("keys")
    write_with_right_checksum(newest, notes)
    pretrain("gridworld-slope", dataclasses.replace(tiny, epochs=tiny.epochs + 1), folder=run, resume=True)
    assert "no keys" in " ".join(capsys.readouterr().out.split())


# --- Long runs.


def test_lines_of_earlier_steps_end_the_metrics(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = "".join(f'{{"epoch": {epoch}, "seed": {seed}}}\n' for epoch in range(3) for seed in range(2))
    path.write_text(lines * 1000)
    assert [(line["epoch"], line["seed"]) for line in read_metrics(path)] == [(i // 2, i % 2) for i in range(6)]


def test_a_summary_without_members_is_refused() -> None:
    summary = {"class": "a", "members": [], "probabilities": [], "label": "DIAYN", "seeds": [0]}
    with pytest.raises(ValueError, match="it has no member"):
        check_run_summary("metatrain", summary, 1)


@pytest.mark.parametrize("part", ["discriminability", "return_after", "variance_without"])
@pytest.mark.parametrize("forged", [[[0.1]] * 2000, [], {"0": [0.1]}])
def test_a_summary_with_more_entries_than_seeds_is_refused(part: str, forged: Any) -> None:
    """Thousands of entries for one seed would take gigabytes when intervals are computed."""
    summary = {"class": "a", "members": ["m"], "probabilities": [1.0], "label": "DIAYN", "seeds": [0], part: forged}
    with pytest.raises(ValueError, match=f"its {part} does not have one entry for each seed"):
        check_run_summary("metatrain", summary, 1)
    check_run_summary("metatrain", summary | {part: [[0.1]]}, 1)


@pytest.mark.parametrize("seeds", [[], [0, 1], [0] * 2000])
def test_a_summary_of_other_seeds_than_the_settings_is_refused(seeds: list[int], run: Path, capsys) -> None:
    edit(run / "summary.json", lambda summary: summary.update(seeds=seeds))
    refuses(["report", str(run)], capsys, f"it has {len(seeds)} seeds, but the settings of the run have 1")


def test_a_network_of_too_many_layers_is_refused() -> None:
    with pytest.raises(InputError, match="hidden: 5000 layers were given; there may be at most 100"):
        PretrainConfig(hidden=(1,) * 5000).check()


def test_a_checkpoint_of_an_impossible_step_is_passed_over(run: Path, tiny: PretrainConfig, capsys) -> None:
    for path in list((run / "checkpoints").iterdir()):
        shutil.copy(path, path.with_name(path.name.replace(path.name[6:12], "9" * 30)))
    resume(run, tiny, tiny.epochs + 1)
    assert len(list(read_metrics(run / "metrics.jsonl"))) == tiny.epochs + 1


def test_checkpoints_past_a_million_steps_are_kept(tmp_path: Path) -> None:
    tree, policy = {"a": np.zeros(2, np.float32)}, GaussianPolicy(2, 2, [4], key=jax.random.key(0))
    metrics = {"bytes": 0, "sha256": ""}
    for done in (999_998, 999_999, 1_000_000, 1_000_001, 12_345_678):
        notes = {"keys": [[0, done]], "seconds": {"total": 1.0}, "metrics": metrics}
        save_checkpoint(tmp_path, "epoch", done, tree, notes, {"seed-0": policy})
        assert saved_checkpoints(tmp_path, "epoch")[-1] == done
        found, damaged = load_newest_checkpoint(tmp_path, "epoch", tree, (1, 2))
        assert found is not None
        assert found[1]["epoch"] == done
        assert not damaged
    assert saved_checkpoints(tmp_path, "epoch") == [1_000_001, 12_345_678]


def metrics_file(path: Path, lines: int) -> Path:
    with path.open("w") as file:
        for epoch in range(lines):
            line = {"epoch": epoch, "seed": 0, "objective": 0.5, "entropy": {"GWS": 0.1, "GWN": 0.2}}
            file.write(json.dumps(line) + "\n")
    return path


def test_metrics_of_any_length_take_little_memory(tmp_path: Path) -> None:
    peaks = []
    for count in (5_000, 50_000):
        path = metrics_file(tmp_path / f"{count}.jsonl", count)
        tracemalloc.start()
        assert sum(1 for _ in read_metrics(path)) == count
        assert len(list(thinned_metrics(path, "epoch", {"objective": float}))) <= 2000
        last = last_metrics_line(path)
        assert last is not None
        assert last["epoch"] == count - 1
        logger = JsonLinesLogger(path)
        logger.close()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 1e6


def test_metrics_before_the_first_step_are_no_reason_to_fail(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"epoch": -700, "objective": 0.5}\n')
    assert list(thinned_metrics(path, "epoch", {"objective": float})) == []


def test_files_that_do_not_fit_together_are_told_with_their_folder() -> None:
    empty: dict[str, int] = {}
    said = r"the files of runs/odd do not fit together \(KeyError: 'total'\)"
    with pytest.raises(InputError, match=said), refusing_odd_files("runs/odd"):
        empty["total"]
    with pytest.raises(InputError, match=r"^its own sentence$"), refusing_odd_files("runs/odd"):
        raise InputError("its own sentence")
    with pytest.raises(OSError, match="full"), refusing_odd_files("runs/odd"):
        raise OSError("full")


def test_lines_of_metrics_that_cannot_be_used_end_the_reading(tmp_path: Path) -> None:
    good = b'{"epoch": 0, "objective": 1.0}\n'
    for bad in (b"nonsense\n", b"5\n", b'{"epoch": "x", "objective": 1.0}\n', b'{"epoch": 1}\n', b"\xff\n", good[:-1]):
        (tmp_path / "metrics.jsonl").write_bytes(good + bad + (b"" if bad == good[:-1] else good))
        assert len(list(read_metrics(tmp_path / "metrics.jsonl", {"epoch": int, "objective": float}))) == 1


def test_resuming_removes_the_lines_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    logger = JsonLinesLogger(path)
    logger.log([{"epoch": 0}])
    mark = logger.mark
    logger.log([{"epoch": 1}, {"epoch": 2}])
    logger.close()
    again = JsonLinesLogger(path, mark)
    again.log([{"epoch": 1}])
    again.close()
    assert [line["epoch"] for line in read_metrics(path)] == [0, 1]
    assert again.mark.bytes == path.stat().st_size
    with pytest.raises(InputError, match="damaged or not there"):
        JsonLinesLogger(path, mark._replace(sha256="0"))


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (True, int, False),
        (1, float, False),
        (1, float | int, True),
        (float("inf"), float, False),
        ({"a": [1.0]}, dict[str, list[float]], True),
        ({"a": [None]}, dict[str, list[float]], False),
        (None, str | None, True),
        ((1, 2), tuple[int, ...], True),
        ([1], tuple[int, ...], False),
    ],
)
def test_values_have_types(value: Any, kind: Any, fits: bool) -> None:
    assert value_has_type(value, kind) == fits
