"""Test which runs a page follows, and what it says about them."""

import json
import os
import time
from pathlib import Path

import pytest

from alphamepol.watching import follower as follower_module
from alphamepol.watching.follower import Follower, run_folders

pytestmark = pytest.mark.quick


def make_run(folder: Path, epochs: int = 10, **described: object) -> Path:
    folder.mkdir(parents=True)
    config = {"epochs": epochs, "alpha": 0.2, "seeds": 2, "memory": "none"}
    content = {"command": "pretrain", "class": "gridworld-slope", "config": config, **described}
    (folder / "config.json").write_text(json.dumps(content))
    return folder


def write_epochs(folder: Path, epochs: range) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        for epoch in epochs:
            file.write(json.dumps({"epoch": epoch, "seed": 0, "objective": 1.0, "seconds": {"sampling": 3.0}}) + "\n")


@pytest.fixture
def looking_always(monkeypatch) -> None:
    monkeypatch.setattr(follower_module, "SEARCH_EVERY", -1.0)
    monkeypatch.setattr(follower_module, "READ_EVERY", -1.0)


def only_run(follower: Follower) -> dict:
    follower.advance()
    (run,) = follower.summarise()
    return run


def test_runs_at_any_depth_are_found_and_links_are_not_followed(tmp_path) -> None:
    elsewhere = make_run(tmp_path / "elsewhere/secret")
    root = tmp_path / "runs"
    found = [make_run(root / name) for name in ("a", "b/c", "d/e/f/g")]
    found.append(make_run(root / "b/c/diayn"))  # the run that learns the skills of maml-diayn
    make_run(root / "d/e/f/h/too/deep")
    make_run(root / "a/figures/not-a-run")
    (root / "link").symlink_to(elsewhere)
    assert run_folders(root) == (sorted(found), True)
    assert run_folders(root / "a") == ([root / "a"], True)
    assert run_folders(tmp_path / "missing") == ([], True)


def test_a_search_ends(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(follower_module, "MOST_ENTRIES", 60)
    monkeypatch.setattr(follower_module, "MOST_RUNS", 3)
    for number in range(40):
        make_run(tmp_path / f"run-{number:02}")
    follower = Follower(tmp_path)
    follower.advance()
    assert len(follower.summarise()) == 3
    assert "The first 3 runs" in follower.notice


def test_a_run_that_appears_later_is_followed_to_its_end(tmp_path, looking_always) -> None:
    follower = Follower(tmp_path)
    follower.advance()
    assert follower.summarise() == []
    folder = make_run(tmp_path / "later")
    assert only_run(follower)["state"] == "starting"
    write_epochs(folder, range(4))
    run = only_run(follower)
    assert (run["state"], run["done"], run["total"], run["unit"]) == ("training", 4, 10, "epoch")
    assert run["seconds_left"] == 6 * 3.0
    assert run["settings"] == ["α = 0.2", "2 seeds"]
    write_epochs(folder, range(4, 10))
    assert only_run(follower)["state"] == "evaluating"
    (folder / "summary.json").write_text("{}")
    assert only_run(follower)["state"] == "finished"


def test_a_run_without_news_is_silent(tmp_path, looking_always) -> None:
    folder = make_run(tmp_path / "old")
    write_epochs(folder, range(4))
    long_ago = time.time() - 3600
    os.utime(folder / "metrics.jsonl", (long_ago, long_ago))
    run = only_run(Follower(tmp_path))
    assert run["state"] == "silent"
    assert 3500 < run["seconds_since"] < 3700


def test_runs_that_train_come_first(tmp_path, looking_always) -> None:
    for name in ("a", "b", "c"):
        write_epochs(make_run(tmp_path / name), range(3))
    (tmp_path / "a/summary.json").write_text("{}")
    (tmp_path / "b/config.json").write_text("not JSON")
    follower = Follower(tmp_path)
    follower.advance()
    assert [run["name"] for run in follower.summarise()] == ["c", "a", "b"]


@pytest.mark.parametrize("content", ["", "[]", '{"command": 3}', '{"config": 3}', "{" * 10_000])
def test_a_hostile_config_becomes_a_sentence_or_nothing(content: str, tmp_path, looking_always) -> None:
    folder = make_run(tmp_path / "odd\n<b>run")
    (folder / "config.json").write_text(content)
    write_epochs(folder, range(2))
    run = only_run(Follower(tmp_path))
    assert run["problem"] or run["total"] is None
    assert run["name"] == "odd\\n<b>run"


def test_a_link_in_a_run_folder_is_named_and_not_read(tmp_path, looking_always) -> None:
    (tmp_path / "secret.json").write_text('{"command": "secret", "class": "secret", "config": {}}')
    folder = make_run(tmp_path / "runs/linked")
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(tmp_path / "secret.json")
    run = only_run(Follower(tmp_path / "runs"))
    assert "is a link" in run["problem"]
    assert "secret" not in run["class"] + run["command"]
