"""Run the attack on the live page at a small size (benchmarks/reliability/watch.py)."""

from benchmarks.reliability.watch import attack, follow_large_file, load


def test_random_requests_break_no_rule(tmp_path) -> None:
    found = attack(tmp_path / "attack", 300)
    assert not any(found["broken"].values()), found
    assert {"200", "403", "405"} <= found["answers"].keys()


def test_a_large_file_is_followed_to_its_end(tmp_path) -> None:
    found = follow_large_file(tmp_path / "large", "epochs of a run", 6 * 10**6)
    assert (found["said"], found["megabytes"]) == ("", 7)
    assert 500 <= found["points"] <= 1001
    assert found["newest_epoch"] > 5000


def test_viewers_see_all_runs(tmp_path) -> None:
    found = load(tmp_path / "load", runs=4, viewers=3, seconds=2.0)
    assert found["answers_that_failed"] == 0
    assert found["answers"] >= 3
    assert found["fewest_epochs_seen"] >= 501
