"""Test that a warning of an environment is shown once, with the name of its member, from whichever process it comes."""

import warnings
from functools import partial
from pathlib import Path

import numpy as np
from toys import Walk

from alphamepol.environments import environment_warnings
from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class

OLD = "<mujoco><compiler settotalmass='3'/><worldbody><body><geom size='1'/></body></worldbody></mujoco>"


class Grumbling(Walk):
    """A walk that has a MuJoCo model with a deprecated attribute, and that warns in its seventh step."""

    def __init__(self, wind: tuple[float, float] = (0.0, 0.0)):
        import mujoco

        super().__init__(wind)
        mujoco.MjModel.from_xml_string(OLD)

    def step(self, action):
        if self.steps == 6:
            warnings.warn(f"\x1b[33mWARN: late at {self.place[0]}\x1b[0m", stacklevel=1)
        return super().step(action)


def test_each_warning_is_shown_once_and_no_file_is_left(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment_warnings, "SHOWN", set())
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        made = gymnasium_class({"a": Grumbling, "b": partial(Grumbling, (0.1, 0.0))}, workers=2, copies=1)
        board, stations = made.fleet.board(2), np.arange(2)
        for seed in (0, 1):
            made.fleet.reset(board, stations, np.array([1, 0]), np.full(2, seed, np.uint32))
            for _ in range(8):
                made.fleet.step(board, stations, np.zeros((len(board.rewards), 2), np.float32))
        made.fleet.close()
    said = [str(warning.message) for warning in shown]
    assert len(said) == 2
    assert said[0].startswith("environment a: compiler attribute 'settotalmass' is deprecated")
    assert said[1].startswith("environment b: late at ")
    assert "WARNING" not in capfd.readouterr().err
    assert list(Path(tmp_path).iterdir()) == []
