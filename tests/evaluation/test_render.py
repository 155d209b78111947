"""Test `render`: its episodes, its frames and files, and the sentence for every mistake."""

import errno
import subprocess
import sys
from functools import partial
from pathlib import Path

import equinox as eqx
import gymnasium
import jax
import numpy as np
import pytest
from hostile_names import HOSTILE_NAMES
from PIL import Image
from toys import DrawnCorridor

import alphamepol as am
from alphamepol.cli.main import main
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.evaluation.films import FilmPlan, check_member_can_be_drawn, film_episode
from alphamepol.figures.videos import encoding
from alphamepol.figures.videos.frames import Panel, compose_frame, compose_strip
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.policy import stack_policies
from alphamepol.policies.shape import policy_shape
from alphamepol.sampling.sampler import collect_with_sampler

pytestmark = pytest.mark.quick
SLOPE = "gridworld-slope/alpha-0.2"
KEY = jax.random.key(0)
CORRIDOR = am.CategoricalPolicy(9, 2, (4,), key=KEY)
BOTH = """
import toys
import alphamepol as am


def corridors():
    return am.gymnasium_class({"long": toys.DrawnCorridor, "also": toys.DrawnCorridor}, name="corridors", workers=1)


def walks():
    return am.gymnasium_class({"undrawn": toys.Walk}, name="walks", workers=1)
"""


def whole(picture):
    return picture


@pytest.fixture(scope="module")
def corridors():
    return am.gymnasium_class({"one": DrawnCorridor, "two": DrawnCorridor}, name="corridors", workers=1)


@pytest.fixture(scope="module")
def climb(tmp_path_factory):
    out = tmp_path_factory.mktemp("videos") / "climb.gif"
    return am.render([SLOPE, "random"], ["GWS", "GWN"], out, steps=6, every=4, seed=3, fps=10, quiet=True)


def test_frames_and_captions_show_methods_and_members(climb) -> None:
    assert [(one.member, one.method, one.steps) for one in climb.episodes] == [
        ("GWS", SLOPE, 6),
        ("GWN", SLOPE, 6),
        ("GWS", "Random", 6),
        ("GWN", "Random", 6),
    ]
    assert [panel.names for panel in climb.panels] == [(one.member, one.method) for one in climb.episodes]
    assert len(climb) == 3  # after 0, 4 and 6 steps
    for panel in climb.panels:
        assert panel.sayings[0] == "step 0"
        assert [saying.split(" · ")[0] for saying in panel.sayings] == ["step 0", "step 4", "step 6"]
        assert " · x " in panel.sayings[1]
        assert ", y " in panel.sayings[1]
    frames = list(climb.frames())
    assert len({frame.shape for frame in frames}) == 1
    height, width, _ = frames[0].shape
    assert (climb.columns, width % 2, height % 2) == (2, 0, 0)
    assert width > 2 * 400
    assert height > 2 * 400
    with Image.open(climb.path) as gif:
        assert (gif.n_frames, gif.size, gif.info["duration"]) == (3, (width, height), 100)
        assert gif.convert("RGB").getpixel((1, 1)) == (255, 255, 255)  # as the page around it


def test_a_seed_repeats_the_frames(climb) -> None:
    again = am.render([SLOPE, "random"], ["GWS", "GWN"], steps=6, every=4, seed=3, quiet=True)
    assert all(np.array_equal(one, other) for one, other in zip(climb.frames(), again.frames(), strict=True))
    assert encoding.encode_video(again.panels, 2, 10, ".gif") == climb.path.read_bytes()
    other = am.render([SLOPE, "random"], ["GWS", "GWN"], steps=6, every=4, seed=4, quiet=True)
    assert not np.array_equal(next(climb.frames()), next(other.frames()))


@pytest.mark.parametrize("suffix", [".mp4", ".png"])
def test_files_can_be_read_back(climb, suffix: str, tmp_path: Path) -> None:
    out = tmp_path / f"climb{suffix}"
    climb.save(out)
    if suffix == ".png":
        with Image.open(out) as strip:
            assert strip.width > 3 * 300
            assert strip.height > 4 * 300
        return
    import imageio_ffmpeg

    frames, _ = imageio_ffmpeg.count_frames_and_secs(out)
    assert frames == 3
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-i", str(out), "-f", "rawvideo"]
    raw = subprocess.run([*command, "-pix_fmt", "rgb24", "-"], capture_output=True, check=True).stdout
    first, expected = np.frombuffer(raw, np.uint8), next(climb.frames())
    first = first[: expected.size].reshape(expected.shape)
    assert np.abs(first.astype(int) - expected).mean() < 3


def first_trajectory(policy, environment_class, number: int, seed: int, steps: int) -> np.ndarray:
    """Return the places of the first of six trajectories, collected with the random key of an evaluation."""
    key = jax.random.fold_in(split_keys_by_purpose(seed_keys([seed])).evaluation[0], number)
    members = jax.numpy.full((1, 3), number)
    seen = collect_with_sampler(
        stack_policies([policy]), environment_class, members, batch=2, horizon=steps, keys=key[None]
    )
    return np.asarray(seen.whereabouts[0, 0, 0])[np.asarray(seen.valid[0, 0, 0])]


def test_the_episode_is_the_first_one_that_evaluate_collects() -> None:
    slope, policy = am.make("gridworld-slope"), am.load_policy(SLOPE)
    film = film_episode(policy, FilmPlan(slope, "GWN", None, 5, 7, 1), whole)
    assert film.places.shape == (7, 2)
    np.testing.assert_allclose(film.places, first_trajectory(policy, slope, 1, 5, 7), atol=1e-5)


def test_the_episode_of_a_host_class_is_the_first_one_that_evaluate_collects(corridors) -> None:
    """The camera shows the same episode, although another process steps the environment."""
    film = film_episode(CORRIDOR, FilmPlan(corridors, "two", None, 0, 9, 1), whole)
    np.testing.assert_array_equal(film.places, first_trajectory(CORRIDOR, corridors, 1, 0, 9))
    # The environment itself paints its place and its step, so that each picture belongs to its number.
    assert [int(picture[0, 1, 0]) for picture in film.pictures] == film.numbers == list(range(film.steps + 1))


def test_an_episode_stops_where_it_ends(corridors) -> None:
    video = am.render(CORRIDOR, "two", environment_class=corridors, steps=60, every=50, seed=1, task=0, quiet=True)
    (episode,), (panel,) = video.episodes, video.panels
    assert episode.steps < 60
    assert len(panel.pictures) == len(panel.sayings) == 2 + (episode.steps > 50)
    assert int(panel.pictures[-1][0, 0, 0]) == 4  # the end of the corridor
    assert panel.sayings[-1] == f"step {episode.steps} · return 0.00 · ended"
    assert episode.returned == 0.0


def test_a_task_has_a_return() -> None:
    """The reward of a goal is 1, and reaching it ends the episode."""
    start = am.Goal((-0.75, 0.75), radius=3.0)
    video = am.render(SLOPE, "GWN", task=start, steps=5, quiet=True)
    assert [(one.steps, one.returned) for one in video.episodes] == [(1, 1.0)]
    assert video.panels[0].sayings == ["step 0 · return 0.00", "step 1 · return 1.00 · ended"]


def test_a_minigrid_is_drawn_as_its_environment_draws_it() -> None:
    shape = policy_shape(am.make("minigrid"))
    policy = am.CategoricalPolicy(
        shape.observation_size, 7, (4,), trunk=shape.image and Trunk(shape.image, key=KEY), key=KEY
    )
    video = am.render(policy, "AdvG", environment_class="minigrid", steps=2, seed=2, quiet=True)
    env = gymnasium.make("alphamepol/AdvG-v0", render_mode="rgb_array")
    env.reset(seed=0)
    first = video.panels[0].pictures[0]
    assert first.shape == env.render().shape == (320, 320, 3)
    assert video.panels[0].sayings[1].startswith("step 1 · column ")


class Painted(am.CMP):
    """A point on a line. Its picture is what a test wants."""

    start: jax.Array
    picture: str = eqx.field(static=True)

    observation_space = property(lambda self: gymnasium.spaces.Box(-9.0, 9.0, (1,), np.float32))
    action_space = property(lambda self: gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32))
    entropy_ceiling = property(lambda self: 0.0)

    def reset(self, *, key):
        return self.start

    def step(self, state, action, *, key):
        return state + 1.0

    def observe(self, state):
        return state

    def features(self, state):
        return state

    def ended(self, state):
        return state[0] > 2.5

    def render(self, state):
        if self.picture == "raise":
            raise ZeroDivisionError("on demand")
        return np.full((4, 4, 3) if self.picture == "good" else (4, 4), 50.0 * state[0])


def painted(picture: str):
    return am.EnvironmentClass({"one": Painted(jax.numpy.zeros(1), picture)}, name="painted")


def test_a_member_of_ones_own_paints_itself() -> None:
    policy = am.GaussianPolicy(1, 1, (4,), key=KEY)
    video = am.render(policy, environment_class=painted("good"), steps=9, quiet=True)
    assert [int(picture[0, 0, 0]) for picture in video.panels[0].pictures] == [0, 50, 100, 150]
    assert video.panels[0].sayings[-1] == "step 3 · ended"


def test_a_grid_has_a_row_for_each_method_and_at_most_five_columns() -> None:
    grey = np.full((30, 40, 3), 99, np.uint8)
    for panels, columns, rows in ((1, 1, 1), (6, 3, 2), (7, 5, 2), (20, 5, 4)):
        frame = compose_frame([Panel((), [grey], [""])] * panels, columns, 0)
        row = np.flatnonzero((frame[:, :, 0] == 99).any(axis=1))
        column = np.flatnonzero((frame[:, :, 0] == 99).any(axis=0))
        assert 1 + np.sum(np.diff(row) > 4) == rows
        assert 1 + np.sum(np.diff(column) > 4) == columns


def test_a_shorter_episode_waits_and_leaves_the_strip() -> None:
    short, long = ([np.full((20, 96, 3), 10 * i, np.uint8) for i in range(1, n)] for n in (3, 6))
    panels = [Panel(("short",), short, ["s"] * 2), Panel(("long",), long, ["s"] * 5)]
    last = compose_frame(panels, 2, 4)
    assert {20, 50} <= set(last[:, :, 0].ravel().tolist())
    strip = compose_strip(panels, range(5))
    assert {10, 20, 30, 40, 50} <= set(strip[:, :, 0].ravel().tolist())
    upper = strip[: len(strip) // 2]
    assert np.sum(upper[:, :, 0] == 20) == np.sum(upper[:, :, 0] == 10)  # shown once


def test_captions_hold_any_names() -> None:
    grey = np.full((30, 200, 3), 99, np.uint8)
    sizes = {compose_frame([Panel((name, name), [grey], [""])], 1, 0).shape for name in HOSTILE_NAMES.values()}
    assert len(sizes) == 1
    frames = [compose_frame([Panel((name,), [grey], [""])], 1, 0) for name in ("x" * 2999 + "1", "x" * 2999 + "2")]
    assert not np.array_equal(*frames)  # the hash of a shortened name tells them apart


MISTAKES = {
    "unknown member": ("--member Down", "member: class gridworld-slope has no member 'Down', only GWS, GWN"),
    "unknown suffix": ("--out climb.avi", "out: climb.avi was given; its name must end in .mp4, .gif or .png"),
    "folder": ("--out folder.gif", "out: folder.gif is a folder; give the name of a file"),
    "no steps": ("--steps 0", "steps: 0 was given; it must be a whole number from 1 to"),
    "no frames": ("--every 0", "every: 0 was given; it must be a whole number from 1 to"),
    "too fast": ("--fps 51", "fps: 51 was given; it must be a whole number from 1 to 50"),
    "negative seed": ("--seed -1", "seed: -1 was given; it must be at least 0"),
    "unknown task": ("--task 50", "task: 50 was given; GWS has tasks 0 to 49"),
    "policy of another seed": ("--policy-seed 7", "seed: 7 was given; gridworld-slope/alpha-0.2 has 0"),
    "too many": ("--member" + " GWS" * 21, "member: 21 episodes were asked for; a video shows at most 20"),
    "not drawable": (
        "--class toys_of_render.py:walks --member undrawn",
        "environment undrawn: it cannot be drawn: its render modes are none; pictures need rgb_array",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_ends_in_a_sentence(name: str, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.gif").mkdir()
    (tmp_path / "toys_of_render.py").write_text(BOTH)
    options, sentence = MISTAKES[name]
    out = [] if "--out" in options else ["--out", "climb.gif"]
    policy = SLOPE
    assert main(["render", policy, *options.split(), *out]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert sorted(path.name for path in tmp_path.glob("*.gif")) == ["folder.gif"]


@pytest.mark.parametrize(
    ("picture", "sentence"),
    [
        ("raise", r"member: render of Painted failed \(ZeroDivisionError: on demand\)"),
        ("flat", r"member: render of Painted returned float32\[4, 4\]; a picture is an array of numbers"),
    ],
)
def test_a_member_that_fails_to_paint_is_named(picture: str, sentence: str) -> None:
    policy = am.GaussianPolicy(1, 1, (4,), key=KEY)
    with pytest.raises(am.InputError, match=sentence):
        am.render(policy, environment_class=painted(picture), steps=9, quiet=True)


def test_an_environment_that_cannot_be_drawn_is_named() -> None:
    members = {"grey": partial(DrawnCorridor, "grey"), "bare": partial(DrawnCorridor, "raise")}
    environment_class = am.gymnasium_class(members, workers=1)
    for name, sentence in (
        ("grey", r"environment grey: it cannot be drawn: render\(\) returned uint8\[6, 8\]; a picture is uint8"),
        ("bare", r"environment bare: it cannot be drawn \(ModuleNotFoundError: No module named 'pygame'\)"),
    ):
        with pytest.raises(am.InputError, match=sentence):
            check_member_can_be_drawn(environment_class, name)


class Undrawn(am.CMP):
    """A member without a picture."""

    observation_space = action_space = property(lambda self: gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32))
    entropy_ceiling = property(lambda self: 0.0)
    reset = step = observe = features = ended = lambda self, *given, **named: jax.numpy.zeros(1)


def test_a_member_without_a_picture_is_told_what_to_write() -> None:
    with pytest.raises(am.InputError, match=r"member: one cannot be drawn; give Undrawn a method render\(state\)"):
        check_member_can_be_drawn(am.EnvironmentClass({"one": Undrawn()}), "one")


def test_a_video_that_would_not_fit_into_memory_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("alphamepol.evaluation.render.MOST_BYTES", 10**6)
    with pytest.raises(am.InputError, match=r"every: the pictures would take .* GB, more than"):
        am.render(SLOPE, "GWS", steps=9, every=1, quiet=True)


def test_an_mp4_needs_an_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(am.InputError, match=r"pip install 'alphamepol\[video\]'"):
        am.render(SLOPE, "GWS", "climb.mp4", quiet=True)


def test_ffmpeg_may_fail(climb, tmp_path, monkeypatch) -> None:
    import imageio_ffmpeg

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: "false")
    with pytest.raises(am.RunError, match=r"out: ffmpeg failed \(.*\); is there room on the disk of "):
        climb.save(tmp_path / "climb.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("failure", "status"), [(KeyboardInterrupt(), 130), (OSError(errno.ENOSPC, "No space left on device"), 1)]
)
def test_no_half_written_file_is_left(failure: BaseException, status: int, tmp_path, monkeypatch, capsys) -> None:
    out = tmp_path / "climb.gif"
    out.write_bytes(b"the old file")

    def fail(*arguments):
        raise failure

    monkeypatch.setattr("alphamepol.files.atomic.os.fsync", fail)
    assert main(["render", SLOPE, "--member", "GWS", "--steps", "2", "--out", str(out)]) == status
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"the old file"]
    assert "Traceback" not in capsys.readouterr().err
