"""Test runs of classes with images: MiniGrid in JAX, Gymnasium environments, and Farama's MiniGrid."""

import dataclasses

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from measured import measured
from toys import Painting

from alphamepol import InputError, TrpoConfig, export, finetune, gymnasium_class, make, preset, pretrain
from alphamepol.algorithms.alphamepol.start import start_pretraining
from alphamepol.algorithms.finetuning.presets import finetuning_preset
from alphamepol.cli.main import main
from alphamepol.environments.minigrid.map import EASY_GOALS
from alphamepol.figures.heat_maps import heat_map_pixels
from alphamepol.measuring.particles import find_particle_encoder, make_particles_measurable, particle_size
from alphamepol.measuring.visits import count_visited_cells
from alphamepol.sampling.sampler import collect_with_sampler

SETTINGS = {"epochs": 2, "horizon": 20, "trajectories": 6, "batch": 2, "neighbours": 6, "evaluation_batches": 3}


@pytest.fixture(scope="module")
def config():
    small = dataclasses.replace(preset("paper", "minigrid"), **SETTINGS, seeds=2, max_off_policy_iterations=2)
    return dataclasses.replace(small, alpha=1.0, gradient_share=0.4, learning_rate=1e-4)


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    return pretrain("minigrid", config, folder=tmp_path_factory.mktemp("images") / "run", quiet=True)


def test_presets_are_the_papers():
    settings = preset("paper", "minigrid")
    assert (settings.epochs, settings.horizon, settings.trajectories, settings.batch) == (300, 150, 100, 5)
    assert (settings.alpha, settings.neighbours, settings.hidden, settings.seeds) == (0.2, 50, (64,), 10)
    assert settings.gradient_share == 0.2
    assert (preset("authors", "minigrid").alpha, preset("authors", "minigrid").gradient_share) == (0.3, 0.3)
    assert preset("paper", "minigrid-counterexample") == settings
    tuning = finetuning_preset("minigrid")
    assert (tuning.iterations, tuning.horizon, tuning.steps, tuning.tasks) == (200, 150, 7500, 13)
    assert (tuning.max_kl, tuning.hidden, tuning.critic_hidden) == (1e-4, (64,), (64, 64))


def test_cells_are_reported_beside_the_entropy(run, config):
    for member in ("EasyG", "AdvG"):
        per_trajectory, per_minibatch = (
            np.array(run.summary[f"cells_per_{per}"][member]) for per in ("trajectory", "minibatch")
        )
        assert per_trajectory.shape == (2,)
        assert np.all(per_trajectory >= 1)
        assert np.all(per_trajectory <= per_minibatch)
        assert np.all(per_minibatch <= 2 * per_trajectory)
    assert np.isfinite(run.summary["mean"]).all()
    assert measured(run.policies, "minigrid", config).to_dict()["entropy"] == run.summary["entropy"]


def test_distinct_cells_are_counted_by_hand():
    places = np.array([[[1, 1], [1, 2], [1, 1], [5, 1]], [[0, 0], [4, 3], [4, 3], [4, 3]]], float)
    valid = np.array([[True, True, True, False], [True, True, True, True]])
    assert count_visited_cells(places, valid, (6, 4)).tolist() == [2, 2]


def test_visits_are_drawn_on_the_grid(run):
    lines = (run.folder / "figures" / "heat-maps.csv").read_text().splitlines()[1:]
    shares = {}
    for line in lines:
        _, member, x, y, share = line.split(",")
        shares[member, float(x), float(y)] = float(share)
    assert ("EasyG", 1.0, 16.0) in shares  # the start; cells have integer places, and y grows southward
    assert ("AdvG", 1.0, 8.0) in shares
    assert sum(share for (member, *_), share in shares.items() if member == "EasyG") == pytest.approx(1, abs=1e-4)
    assert (run.folder / "figures" / "trails.png").exists() is False  # only comparisons have trails
    assert (run.folder / "figures" / "heat-maps.png").stat().st_size > 1500


def test_encoders_shift_entropies_and_are_decided_by_their_seed(run, config):
    environment_class = make("minigrid")
    other = dataclasses.replace(config, encoder_seed=1)
    entropies = [measured(run.policies, environment_class, one).mean for one in (config, config, other)]
    np.testing.assert_array_equal(entropies[0], entropies[1])
    assert run.summary["encoder_seed"] == 0
    assert np.all(np.abs(entropies[0] - entropies[2]) > 0.1)
    plain = dataclasses.replace(config, encoder="none", feature_noise=0.01)
    assert particle_size(environment_class, "none") == 147
    assert np.isfinite(measured(run.policies, environment_class, plain).mean).all()


def test_equal_images_are_particles_close_together(config):
    environment_class = make("minigrid")
    state = start_pretraining(environment_class, config)
    members = jnp.zeros((2, 3), int)
    samples = collect_with_sampler(
        state.learners.policy, environment_class, members, batch=2, horizon=20, keys=state.keys
    )
    encoded = make_particles_measurable(
        samples, find_particle_encoder(environment_class, config), None, keys=state.keys
    )
    assert encoded.particles.shape == (2, 3, 2, 20, 64)
    flat, images = np.asarray(encoded.particles).reshape(-1, 64), np.asarray(samples.particles).reshape(-1, 147)
    same = (images[:, None] == images[None]).all(axis=-1)
    distances = np.abs(flat[:, None] - flat[None]).max(axis=-1)
    assert same.sum() > len(same)  # some images occur more than once
    assert distances[same].max() <= 0.001 + 1e-5
    assert np.all(distances[same & ~np.eye(len(same), dtype=bool)] > 0)
    assert distances[~same].min() > 0.001


def test_fine_tuning_on_goals_that_are_seen(run, tmp_path):
    small = TrpoConfig(tasks=2, iterations=2, horizon=20, steps=200, critic_batch=64)
    done = finetune(run.folder, "EasyG", small, folder=tmp_path / "tuned", quiet=True)
    assert done.summary["tasks"] == [list(goal) for goal in EASY_GOALS[:2]]
    near = dataclasses.replace(small, goals=(1.0, 15.0, 2.0, 16.0), tasks=2)
    done = finetune(run.folder, "EasyG", near, folder=tmp_path / "near", quiet=True)
    assert done.summary["tasks"] == [[1, 15], [2, 16]]
    assert np.all(done.returns > 0)  # the goals are one or two steps away
    assert np.all(done.returns < 1)  # MiniGrid lowers the reward with every step
    assert done.load_policy(0).architecture["image"] == [7, 7, 3]
    with pytest.raises(InputError, match="goal: 0 0 was given, where there is something"):
        finetune(run.folder, "EasyG", dataclasses.replace(small, goals=(0.0, 0.0)), quiet=True)
    with pytest.raises(InputError, match="the reward in AdvG is defined for at most max_steps = 1000 steps"):
        finetune(run.folder, "AdvG", dataclasses.replace(small, horizon=2000, steps=2000), quiet=True)


def test_what_images_cannot_do_gets_a_sentence(run, config, tmp_path, capsys):
    with pytest.raises(InputError, match="other networks for images"):
        export(run.folder, tmp_path / "policy.zip", "sb3")
    with pytest.raises(InputError, match="encoder: random was given, but the particles of class gridworld-slope"):
        pretrain(
            "gridworld-slope",
            dataclasses.replace(preset("quick", "gridworld-slope"), encoder="random"),
            folder=tmp_path / "no",
        )
    assert main(["pretrain", "minigrid", "--initial-mean", "0"]) == 2
    assert "policies that see images are not regressed" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"gradient_share: 0\.0 was given; it must be above 0"):
        dataclasses.replace(config, gradient_share=0.0).check()


def test_images_of_gymnasium_environments(tmp_path, config):
    """Particles are encoded and scaled, and trajectories go on after the end of an episode."""
    members = {"slow": Painting, "fast": lambda: Painting(2)}
    painted = gymnasium_class(members, name="painted", endless=True, workers=1)
    small = dataclasses.replace(config, normalise=True, seeds=1, gradient_share=1.0)
    run = pretrain(painted, small, folder=tmp_path / "run", quiet=True)
    assert run.policies[0].trunk.shape == (9, 8, 1)
    assert run.policies[0].scaling.particle_deviation.shape == (64,)
    assert np.isfinite(run.summary["mean"]).all()
    # A feature that never changes has only noise, and the noise must not be taken as its unit.
    assert np.all(run.policies[0].scaling.particle_deviation > 0.1)


@pytest.mark.parametrize("endless", [True, False])
def test_trajectories_go_on_after_an_end_if_told_to(endless, config):
    painted = gymnasium_class({"slow": Painting}, endless=endless, workers=1)
    state = start_pretraining(painted, dataclasses.replace(config, seeds=1), look=False)
    try:
        samples = collect_with_sampler(
            state.learners.policy, painted, jnp.array([[0]]), batch=1, horizon=8, keys=state.keys
        )
    finally:
        painted.fleet.close()
    assert np.asarray(samples.valid).ravel().tolist() == [True] * 5 + [endless] * 3


def unlock_of_farama() -> gymnasium.Env:
    from minigrid.wrappers import ImgObsWrapper

    return ImgObsWrapper(gymnasium.make("MiniGrid-Unlock-v0"))


def test_faramas_own_environments_are_a_class():
    own = gymnasium_class({"one": unlock_of_farama, "two": unlock_of_farama}, endless=True, workers=1)
    state = start_pretraining(own, dataclasses.replace(preset("paper", "minigrid"), seeds=1))
    try:
        samples = collect_with_sampler(
            state.learners.policy, own, jnp.array([[0, 1]]), batch=1, horizon=8, keys=state.keys
        )
    finally:
        own.fleet.close()
    assert samples.perceived.shape == (1, 2, 1, 8, 147)
    assert np.all(samples.valid)
    kinds = np.asarray(samples.particles).reshape(-1, 7, 7, 3)[..., 0]
    assert kinds.max() <= 10


def test_pictures_show_the_members_own_part_of_the_grid():
    member = make("minigrid")["AdvG"]
    places, valid = np.array([[1.0, 8.0], [3.0, 1.0]]), np.ones(2, bool)
    pixels = heat_map_pixels(places, valid, member, size=180)
    assert pixels.shape == (100, 100, 3)  # 10 × 10 cells of 10 × 10 pixels
    assert (pixels[85, 15] != 255).any()  # the start was visited
    assert (pixels[15, 85] == 255).all()  # a free cell was not visited
    assert (pixels[5, 5] == pixels[35, 75]).all()  # walls are grey
