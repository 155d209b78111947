"""Test hostile files from others: they run no code, write nowhere, and cannot exhaust memory with forged sizes."""

import io
import json
import pickle
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from alphamepol import GaussianPolicy, InputError, PretrainConfig, export, load_policy, pretrain, save_policy
from alphamepol.cli.main import main
from alphamepol.files.arrays import pack_arrays
from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.policies.files import FORMAT

POLICY = GaussianPolicy(2, 2, [4], key=jax.random.key(0))
ARCHITECTURE = POLICY.architecture


class Attack:
    """An object that runs code when it is unpickled."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.canary,)


@pytest.fixture(scope="module")
def run(tiny: PretrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain("gridworld-slope", tiny, folder=tmp_path_factory.mktemp("runs") / "run", quiet=True).folder


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sb3") / "policy.zip"
    export(run, path, "sb3")
    return path


def refused(path: Path, because: str = "") -> None:
    with pytest.raises(InputError, match=f"cannot be read as a policy .*{because}"):
        load_policy(path)


def safetensors(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def policy_file(path: Path, tree: Any = POLICY, **architecture: Any) -> Path:
    path.write_bytes(pack_arrays(tree, {"format": FORMAT, "architecture": ARCHITECTURE | architecture}))
    return path


def with_part(exported: Path, path: Path, name: str, content: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    """Write the exported zip to `path` with one part replaced."""
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(path, "w", compression) as new:
        for part in old.namelist():
            if part != name:
                new.writestr(part, old.read(part))
        new.writestr(name, content)
    return path


def saved(state: Any, **how: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer, **how)
    return buffer.getvalue()


def weights_of(exported: Path) -> dict[str, torch.Tensor]:
    with zipfile.ZipFile(exported) as file:
        return torch.load(io.BytesIO(file.read("policy.pth")), weights_only=True)


# --- Nothing runs.


def test_the_attack_works_where_a_pickle_is_opened(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Attack(tmp_path / "canary")))
    assert (tmp_path / "canary").exists()


@pytest.mark.parametrize("place", ["policy", "data", "weights", "legacy weights", "other part"])
def test_no_pickle_is_opened(place: str, exported: Path, tmp_path: Path) -> None:
    canary, path = tmp_path / "canary", tmp_path / "policy.zip"
    attack = pickle.dumps(Attack(canary))
    state = weights_of(exported) | {"log_std": Attack(canary)}
    if place == "policy":
        path.write_bytes(attack)
    elif place == "data":
        with zipfile.ZipFile(exported) as file:
            settings = json.loads(file.read("data"))
        settings["policy_class"] = {":type:": "x", ":serialized:": attack.hex()}
        with_part(exported, path, "data", json.dumps(settings).encode())
    elif place == "other part":
        with_part(exported, path, "pytorch_variables.pth", attack)
    else:
        legacy = place == "legacy weights"
        with_part(exported, path, "policy.pth", saved(state, _use_new_zipfile_serialization=not legacy))
    if place in ("data", "other part"):
        load_policy(path)  # this does not need the parts with the attack
    else:
        refused(path)
    assert not canary.exists()


@pytest.mark.parametrize(
    "command", ["evaluate RUN", "finetune RUN --member GWN", "export RUN --to sb3 x.zip", "report RUN"]
)
def test_a_run_folder_does_not_name_what_is_run(command: str, run: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run, "mailed")
    Path("mailed/attack.py").write_text("from pathlib import Path\nPath('canary').touch()\n")
    config = json.loads(Path("mailed/config.json").read_text())
    config["class"] = "mailed/attack.py:attack"
    Path("mailed/config.json").write_text(json.dumps(config))
    status = main(command.replace("RUN", "mailed").split())
    assert not Path("canary").exists()
    if "report" in command or "export" in command:
        assert status == 0  # these commands need no program
    else:
        assert status == 2
        assert "mailed/attack.py:attack, which is a program" in capsys.readouterr().err


# --- Nothing is written elsewhere.


def test_seeds_are_no_paths(run: Path, tmp_path: Path, capsys) -> None:
    folder = shutil.copytree(run, tmp_path / "mailed")
    summary = json.loads((folder / "summary.json").read_text())
    summary["seeds"] = ["0/../../../../elsewhere"]
    (folder / "summary.json").write_text(json.dumps(summary))
    assert main(["evaluate", str(folder)]) == 2
    assert "its seeds is ['0/../../../../elsewhere']" in capsys.readouterr().err


def test_names_of_a_zip_are_not_paths(exported: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    path = with_part(exported, inside / "policy.zip", "../elsewhere", b"x")
    load_policy(path)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["inside", "policy.zip"]


def test_a_page_shows_what_files_say_as_text(run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "mailed")
    config = json.loads((folder / "config.json").read_text())
    config["command_line"] = config["commit"] = config["device"] = "<script>attack()</script>"
    (folder / "config.json").write_text(json.dumps(config))
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    assert "<script>attack" not in (tmp_path / "page.html").read_text()


# --- Memory is not allocated for the sizes that a header claims.


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(struct.pack("<Q", 2**62) + b"{}", id="a header of 2^62 bytes"),
        pytest.param(safetensors({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}), id="4 TiB"),
        pytest.param(
            safetensors({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 4]}}, b"1234"), id="wraps"
        ),
        pytest.param(
            safetensors({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, b"1234"), id="backwards"
        ),
        pytest.param(safetensors(b"[" * 10**5), id="deep"),
        pytest.param(safetensors({"__metadata__": {"alphamepol": "[" * 10**5}}), id="deep inside"),
        pytest.param(safetensors({"__metadata__": {"alphamepol": "3"}}), id="a number"),
        pytest.param(b"", id="empty"),
    ],
)
def test_forged_headers_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "policy.safetensors").write_bytes(content)
    refused(tmp_path / "policy.safetensors")
    with pytest.raises(InputError, match="cannot be read as an evaluation"):
        load_evaluation(tmp_path / "policy.safetensors")


@pytest.mark.parametrize(
    "architecture",
    [
        {"hidden": [2**40]},
        {"hidden": [2**70]},
        {"hidden": [1] * 10**5},
        {"hidden": [-1]},
        {"hidden": ["a"]},
        {"hidden": 3},
        {"hidden": None},
        {"observation_size": 2**62},
        {"observation_size": -1},
        {"observation_size": 0.5},
        {"action_size": []},
        {"kind": "attack"},
        {"kind": ["gaussian"]},
        {"image": [2**20, 2**20, 2**20]},
        {"memory": {"recurrent_units": 2**40, "actions": {}}},
        {"scaling": {"features": 2**50}},
        {"more": 1},
    ],
    ids=str,
)
def test_forged_architectures_are_refused(architecture: dict[str, Any], tmp_path: Path) -> None:
    refused(policy_file(tmp_path / "policy.safetensors", **architecture))


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    broken = eqx.tree_at(lambda policy: policy.log_std, POLICY, jnp.array([jnp.nan, 0.0]))
    refused(policy_file(tmp_path / "policy.safetensors", broken), "not all finite")


@pytest.mark.parametrize("name", ["data", "policy.pth"])
def test_a_zip_that_would_grow_is_refused(name: str, exported: Path, tmp_path: Path) -> None:
    path = with_part(exported, tmp_path / "policy.zip", name, bytes(2**27), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2**20
    refused(path, f"its part {name} has {2**27} bytes, more than")


def test_a_part_that_is_not_needed_is_not_read(exported: Path, tmp_path: Path) -> None:
    load_policy(with_part(exported, tmp_path / "policy.zip", "anything", bytes(2**27), zipfile.ZIP_DEFLATED))


def test_weights_that_would_grow_are_refused(exported: Path, tmp_path: Path) -> None:
    state = weights_of(exported)
    name = "mlp_extractor.policy_net.0.weight"
    endless = torch.zeros(1).as_strided((2**16, 2**16), (0, 0))
    refused(
        with_part(exported, tmp_path / "a.zip", "policy.pth", saved(state | {name: endless})), "larger than they are"
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data/0", bytes(2**27))
    refused(with_part(exported, tmp_path / "b.zip", "policy.pth", packed.getvalue()), "larger than they are")


@pytest.mark.parametrize(
    "content",
    ['{"a": ' * 10**5, "[]", "nonsense", '{"command": "pretrain", "class": 3, "config": []}', '{"config": {}}'],
)
@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_json_that_is_no_run_is_refused(content: str, name: str, run: Path, tmp_path: Path, capsys) -> None:
    folder = shutil.copytree(run, tmp_path / "mailed")
    (folder / name).write_text(content)
    for command in (["evaluate"], ["finetune", "--member", "GWN"], ["report"]):
        assert main([command[0], str(folder), *command[1:]]) == 2
        assert capsys.readouterr().err.startswith("alphamepol: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("alpha", "x"),
        ("seeds", 1.5),
        ("hidden", 3),
        ("hidden", [[]]),
        ("horizon", None),
        ("baseline", 1),
        ("attack", 1),
    ],
)
def test_settings_of_other_types_are_refused(field: str, value: Any, run: Path, tmp_path: Path, capsys) -> None:
    folder = shutil.copytree(run, tmp_path / "mailed")
    config = json.loads((folder / "config.json").read_text())
    config["config"][field] = value
    (folder / "config.json").write_text(json.dumps(config))
    assert main(["evaluate", str(folder)]) == 2
    assert field in capsys.readouterr().err


def test_numbers_of_a_policy_are_read_as_they_are(tmp_path: Path) -> None:
    """A file that is not forged is read, so the files in the tests above are refused for the right reason."""
    save_policy(POLICY, tmp_path / "policy.safetensors")
    back = load_policy(policy_file(tmp_path / "again.safetensors"))
    assert all(
        map(np.array_equal, jax.tree.leaves(back), jax.tree.leaves(load_policy(tmp_path / "policy.safetensors")))
    )
