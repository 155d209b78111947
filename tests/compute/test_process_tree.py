"""Test worker processes: what they start ends with them, also if a worker has workers of its own."""

import os
import signal

import pytest
from processes import processes_with_marker, wait_until_no_process_has

from alphamepol.compute.process_tree import DeadWorkerError, ProcessTree, kill_all_process_trees, worker_process_numbers


@pytest.fixture
def marker(monkeypatch, tmp_path) -> str:
    monkeypatch.setenv("ALPHAMEPOL_TEST_MARKER", str(tmp_path))
    return str(tmp_path)


def test_workers_of_a_worker_end_with_it(marker):
    others = worker_process_numbers()  # classes of other tests may still have workers
    tree = ProcessTree()
    worker = tree.start("troubled", "start_inner_worker")
    assert worker.answer() == "ready"
    assert set(worker_process_numbers()) == {*others, worker.process.pid}
    assert len(processes_with_marker(marker)) == 4  # two workers, and a watch for each
    tree.end(0.0)
    assert set(worker_process_numbers()) == set(others)
    wait_until_no_process_has(marker, longest=0)


def test_a_worker_in_the_background_may_ignore_ctrl_c_and_dies_with_all_trees(marker):
    tree = ProcessTree()
    worker = tree.start("troubled", "say_ready")
    assert worker.answer() == "ready"
    assert os.getpgid(worker.process.pid) == worker.process.pid != os.getpgrp()
    worker.process.send_signal(signal.SIGINT)
    assert worker.process.poll() is None
    kill_all_process_trees()
    with pytest.raises(DeadWorkerError, match="signal SIGKILL"):
        worker.answer()
    tree.end(0.0)
    wait_until_no_process_has(marker, longest=0)
