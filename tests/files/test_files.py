"""Test that files are written completely or not at all, and that files with any content can be read safely."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol.errors import InputError
from alphamepol.files.arrays import fill_with_arrays, pack_arrays, seal_arrays, unpack_arrays
from alphamepol.files.atomic import is_unfinished_atomic_write, write_atomically
from alphamepol.files.json_files import from_json, read_config_json, to_json
from alphamepol.files.locks import folder_lock_held
from alphamepol.files.reading import read_small_file

pytestmark = pytest.mark.quick

TREE = {"a": jnp.arange(6.0).reshape(2, 3), "b": (jnp.array(1, jnp.int32), jnp.zeros((0, 2)))}


def test_a_file_is_written_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "new/folder/file.json"
    write_atomically(path, "first")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]
    assert not is_unfinished_atomic_write(path)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    with pytest.raises(TypeError):
        write_atomically(path, 3)  # pyright: ignore[reportArgumentType]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_the_system_that_has_nothing_to_read_is_refused(tmp_path: Path, monkeypatch) -> None:
    """Files such as /proc/kmsg look regular, but a read that does not wait has no answer."""
    path = tmp_path / "config.json"
    path.write_text("{}")
    assert read_small_file(path, 100) == b"{}"

    def not_now(*_):
        raise BlockingIOError

    monkeypatch.setattr("os.pread", not_now)
    with pytest.raises(ValueError, match="it has nothing that can be read now"):
        read_small_file(path, 100)


@pytest.mark.parametrize("inner", ["", "inner", "inner/most"])
@pytest.mark.parametrize("target", ["file", "link", "missing", "loop"])
def test_nothing_is_made_below_what_is_no_folder(target: str, inner: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "missing").symlink_to("created")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match=f"{target} is not a folder"), folder_lock_held(tmp_path / target / inner):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "loop", "missing"]


def test_trees_of_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "tree.safetensors"
    path.write_bytes(seal_arrays(TREE, {"format": "test"}))
    header, arrays = unpack_arrays(path)
    assert header["format"] == "test"
    again = fill_with_arrays(TREE, arrays)
    assert np.array_equal(again["a"], TREE["a"])
    assert (again["b"][0].dtype, again["b"][1].shape) == (jnp.int32, (0, 2))
    assert pack_arrays(TREE, {"x": 1, "y": 2}) == pack_arrays(TREE, {"y": 2, "x": 1})


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "tree.safetensors"
    data = bytearray(seal_arrays(TREE, {}))
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="its checksum does not agree"):
        unpack_arrays(path)


def test_json_is_readable_and_deep_nesting_is_refused() -> None:
    content = {"numbers": [1, 2.5, 3], "names": ["a", "b"], "text": "[1,\n2]"}
    text = to_json(content)
    assert json.loads(text) == content
    assert '"numbers": [1, 2.5, 3]' in text
    with pytest.raises(ValueError, match="nested too deeply"):
        from_json("[" * 100_000)


@pytest.mark.parametrize("content", [None, "[]", "{", "\0"])
def test_a_folder_without_a_run_has_an_empty_description(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    assert read_config_json(tmp_path) == {}
