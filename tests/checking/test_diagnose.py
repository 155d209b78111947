"""Test the findings about a class, and which sentence comes first."""

import dataclasses
import json
import re
import shlex
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from chains import Exact, chain_class
from hypothesis import given, settings
from hypothesis import strategies as st
from planes import planes
from toys import Walk

import alphamepol as am
from alphamepol.checking.diagnose import STAGES, diagnose
from alphamepol.checking.findings import NOISE, TRUSTED, command_of_findings, find_all_findings
from alphamepol.checking.member_shares import member_share_of_draws
from alphamepol.estimation.member_distances import entropy_of_distance_cells
from alphamepol.measuring.aliasing import Aliasing

SIZE = {
    "horizon": 30,
    "trajectories": 24,
    "batch": 3,
    "neighbours": 6,
    "hidden": (8, 8),
    "max_off_policy_iterations": 3,
}


@pytest.fixture(scope="module")
def config():
    return am.PretrainConfig(**SIZE, initial_log_std=-0.5, learning_rate=1e-3)


@pytest.fixture(scope="module")
def found(config):
    """Return a diagnosis, and check that its stages are entered in order."""
    entered = []

    @contextmanager
    def stage(name):
        entered.append(name)
        yield

    found = diagnose(planes(), config, batches=6, stage=stage)
    assert tuple(entered) == STAGES
    return found


def first_sentence(environment_class, config):
    findings = find_all_findings(diagnose(environment_class, config, batches=6))
    return findings[0]


def test_a_class_with_aliasing_is_told_first(config):
    finding = first_sentence(planes(whole=(False, True)), config)
    assert finding.serious
    assert "plane-1" in finding.sentence
    assert "particles coincide" in finding.sentence
    assert "--feature-noise" in finding.sentence


def test_k_is_raised_where_that_is_enough(found):
    crowded = dataclasses.replace(
        found, aliasing=(Aliasing(0.0, 1), Aliasing(0.38, 39)), smallest=np.array([2000, 2000])
    )
    finding = find_all_findings(crowded)[0]
    assert finding.sentence == (
        "Member plane-1: 38% of particles coincide, up to 39 in one place: with k = 6 its entropy is minus infinity; "
        "use --neighbours 60, or a feature noise of 0.004."
    )
    assert finding.settings == {"neighbours": 60}
    safe = dataclasses.replace(found, aliasing=(Aliasing(0.0, 1), Aliasing(0.38, 2)))
    assert any(
        one.sentence.endswith("up to 2 in one place; k = 6 is safe.") and not one.serious
        for one in find_all_findings(safe)
    )
    close = dataclasses.replace(found, aliasing=(Aliasing(0.0, 1), Aliasing(0.38, 5)))
    assert any("just large enough now" in one.sentence and not one.serious for one in find_all_findings(close))


def test_wild_scales_are_told_first(config):
    wild = planes(unit=3e4)
    found = {
        normalise: diagnose(wild, dataclasses.replace(config, normalise=normalise), batches=6)
        for normalise in (False, True)
    }
    off = find_all_findings(found[False])
    assert off[0].serious
    assert off[0].sentence.startswith("Observations are not of order one: component 1")
    assert off[0].sentence.endswith("use --normalise.")
    assert off[0].settings == {"normalise": True}
    assert off[-1].sentence.startswith("No other findings are shown")
    assert " --normalise" in command_of_findings(found[False], off)  # although the preset of a user's own class has it
    on = [
        one
        for one in find_all_findings(found[True])
        if one.sentence.startswith("Observations are not of order one: component 1")
    ]
    assert len(on) == 1
    assert on[0].sentence.endswith("--normalise is needed, and is on.")
    assert not on[0].serious


def test_identical_members_are_told_first(config):
    finding = first_sentence(planes(winds=(0.1, 0.1)), config)
    assert finding.serious
    assert finding.sentence.startswith("All members are the same as far as Random can tell")
    assert "they start and step alike" in finding.sentence


def test_identical_members_of_a_host_class_are_told_first(config):
    same = am.gymnasium_class({"one": Walk, "two": Walk}, workers=1, name="walks")
    try:
        finding = first_sentence(same, dataclasses.replace(config, normalise=True))
    finally:
        same.fleet.close()
    assert finding.sentence.startswith(
        "All members are the same as far as Random can tell (their states and their steps are alike)"
    )


def test_two_alike_of_three_are_named(config):
    findings = find_all_findings(diagnose(planes(whole=(False,) * 3, winds=(0.1, 0.2, 0.1)), config, batches=6))
    assert findings[0].sentence.startswith("Members plane-0 and plane-2 are the same as far as Random can tell")


def test_a_class_without_trouble_is_told_so(found):
    findings = find_all_findings(dataclasses.replace(found, own_neighbours=np.array([0.3, 0.3])))
    assert findings[0].sentence == "Nothing stands in the way of training on planes with these settings."
    assert not any(finding.serious for finding in findings)
    for says in ("the hardest member is", "The worst 20%", "The largest possible entropy is not known", "π-diameter"):
        assert any(says in finding.sentence for finding in findings)


def rates(found, *shares):
    """Return the same diagnosis with other effective shares for the learning rates that were tried."""
    pairs = zip(found.learned, shares, strict=True)
    return dataclasses.replace(found, learned=tuple(dataclasses.replace(one, effective=share) for one, share in pairs))


def of_rate(found):
    (finding,) = [
        one for one in find_all_findings(found) if one.sentence.startswith("After one epoch with learning rate")
    ]
    return finding


def test_a_rate_that_spends_the_samples_is_lowered_and_an_idle_one_raised(found):
    spent = of_rate(rates(found, 0.9, 0.5, 0.05, 0.01, 0.001))
    assert spent.serious
    assert "the one that collected the samples; use --learning-rate 0.0003, which leaves 50%" in spent.sentence
    assert spent.settings == {"learning_rate": 3e-4}
    hopeless = of_rate(rates(found, 0.05, 0.04, 0.03, 0.02, 0.01))
    assert hopeless.serious
    assert hopeless.settings == {}  # a rate that was not tried is not advised
    assert "because even the lowest that was tried, 0.0001, is too large" in hopeless.sentence
    idle = of_rate(rates(found, 1.0, 0.999, 0.995, 0.8, 0.1))
    assert idle.serious
    assert "hardly moves" in idle.sentence
    assert idle.settings == {"learning_rate": 3e-3}
    stuck = rates(found, 0.9, 0.5, 1.0, 1.0, 1.0)
    stuck = dataclasses.replace(
        stuck,
        learned=(
            *stuck.learned[:2],
            *(dataclasses.replace(one, iterations=0, backtracks=10) for one in stuck.learned[2:]),
        ),
    )
    left = of_rate(stuck)
    assert left.serious
    assert "every step left the trust region" in left.sentence
    assert left.settings == {"learning_rate": 3e-4}
    little = of_rate(rates(found, 0.9, 0.8, 0.2, 0.1, 0.1))
    assert not little.serious
    assert "which is not much, but enough to learn from; learning rate 0.0003 leaves 80%" in little.sentence
    well = of_rate(rates(found, 0.9, 0.8, 0.7, 0.4, 0.1))
    assert not well.serious
    assert well.settings == {}
    assert "the largest rate that leaves 30% or more is 0.003" in well.sentence


def test_a_rate_is_advised_only_as_far_as_shares_fall(found):
    noisy = "too noisy to choose a larger rate by, because they do not fall as the rate grows"
    rising = of_rate(rates(found, 0.33, 0.32, 0.61, 0.5, 0.4))
    assert not rising.serious
    assert (
        f"{noisy}: 33% with 0.0001, 32% with 0.0003, 61% with 0.001, 50% with 0.003, 40% with 0.01." in rising.sentence
    )
    assert "enough to learn from" not in rising.sentence
    assert "the largest rate" not in rising.sentence
    spent = of_rate(rates(found, 0.5, 0.9, 0.05, 0.01, 0.01))
    assert spent.settings == {"learning_rate": 1e-4}
    assert noisy in spent.sentence
    idle = of_rate(rates(found, 1.0, 1.0, 0.995, 0.4, 0.9))
    assert idle.settings == {"learning_rate": 3e-3}
    assert noisy in idle.sentence


OBSTACLES = {
    "none": {},
    "coinciding": {"aliasing": (Aliasing(0.0, 1), Aliasing(0.4, 39)), "smallest": np.array([2000, 2000])},
    "many coinciding": {"aliasing": (Aliasing(0.0, 1), Aliasing(0.4, 39))},
    "close": {"aliasing": (Aliasing(0.0, 1), Aliasing(0.4, 5))},
    "short": {"smallest": np.array([5, 90])},
    "wild": {},
}


@settings(max_examples=120, deadline=None)
@given(
    epochs=st.lists(
        st.tuples(st.sampled_from([0.05, 0.2, 0.31, 0.33, 0.6, 0.9, 0.995, 1.0]), st.sampled_from([3, 3, 3, 0])),
        min_size=5,
        max_size=5,
    ),
    rare=st.sampled_from([0.5, 0.2, 0.1, 0.01, 1.0]),
    own=st.sampled_from([0.3, 0.55, 0.9]),
    batch=st.sampled_from([1, 3, 5]),
    obstacle=st.one_of(st.just("none"), st.just("none"), st.sampled_from(list(OBSTACLES))),
)
def test_the_line_has_every_option_that_a_sentence_advises(found, epochs, rare, own, batch, obstacle):
    config = dataclasses.replace(found.config, horizon=2000, trajectories=8 * batch, batch=batch)
    learned = tuple(
        dataclasses.replace(one, effective=share, iterations=iterations, backtracks=0 if iterations else 10)
        for one, (share, iterations) in zip(found.learned, epochs, strict=True)
    )
    changed = dataclasses.replace(
        found,
        config=config,
        learned=learned,
        probabilities=(1 - rare, rare),
        draws=(member_share_of_draws(1 - rare, 8), member_share_of_draws(rare, 8)),
        own_neighbours=np.array([0.3, own]),
        **OBSTACLES[obstacle],
    )
    if obstacle == "wild":
        changed = dataclasses.replace(
            changed, observations=dataclasses.replace(found.observations, mean=np.full(2, 1e4))
        )
    findings = find_all_findings(changed)
    line = command_of_findings(changed, findings)
    words = shlex.split(line)
    for finding in findings:
        for option, value in re.findall(r"(--[a-z-]+) (\d(?:[\d.e-]*\d)?)", finding.sentence):
            assert words[words.index(option) + 1] == value, (finding.sentence, line)
        assert ("use --normalise" in finding.sentence) <= ("--normalise" in words)
        for name, value in finding.settings.items():
            if not isinstance(value, bool):
                assert words[words.index(f"--{name.replace('_', '-')}") + 1] == str(value)
        if "learning_rate" in finding.settings:
            up_to = [one for one in learned if one.rate <= 1.01 * finding.settings["learning_rate"]]
            assert all(one.effective >= TRUSTED and not one.backtracks for one in up_to)
            assert all(high.effective <= low.effective + NOISE for low, high in pairwise(up_to))
    dataclasses.replace(config, **{name: value for one in findings for name, value in one.settings.items()}).check()


def test_what_rates_do_is_measured(found):
    shares = [one.effective for one in found.learned]
    assert shares[0] > shares[-1]
    assert all(0 < one.worst <= one.effective <= 1 for one in found.learned)
    assert [one.rate for one in found.learned] == pytest.approx([1e-4, 3e-4, 1e-3, 3e-3, 1e-2])


def test_members_that_are_rarely_met_are_named(found):
    rare = dataclasses.replace(
        found, probabilities=(0.99, 0.01), draws=(member_share_of_draws(0.99, 8), member_share_of_draws(0.01, 8))
    )
    met = [one for one in find_all_findings(rare) if "is not drawn in" in one.sentence]
    assert len(met) == 1
    assert "plane-1" in met[0].sentence
    assert met[0].settings["trajectories"] == 3 * 299  # 0.99^299 is the first power below 5 %


def test_settings_of_several_findings_go_together(found):
    """One finding asks for a larger batch, another for more trajectories. The command with both must be valid."""
    from alphamepol.cli.main import _parse_main_arguments

    both = dataclasses.replace(
        found,
        class_name="gridworld-slope",
        probabilities=(0.99, 0.01),
        draws=(member_share_of_draws(0.99, 8), member_share_of_draws(0.01, 8)),
        own_neighbours=np.array([0.3, 0.9]),
    )
    parsed = _parse_main_arguments(command_of_findings(both, find_all_findings(both)).split()[1:])
    parsed.config.check()
    assert (parsed.config.batch, parsed.config.trajectories) == (12, 12 * 299)


def test_members_that_are_never_drawn_are_not_spoken_of(found):
    never = dataclasses.replace(
        found,
        probabilities=(1.0, 0.0),
        draws=(member_share_of_draws(1.0, 8), member_share_of_draws(0.0, 8)),
        aliasing=(Aliasing(0.0, 1), Aliasing(1.0, 80)),
        smallest=np.array([90, 3]),
        own_neighbours=np.array([0.3, 1.0]),
    )
    assert not any("plane-1" in one.sentence for one in find_all_findings(never))


def test_too_few_particles_are_not_cured_by_a_k_that_aliasing_forbids(found):
    short = dataclasses.replace(found, smallest=np.array([90, 5]), aliasing=(Aliasing(0.1, 2), Aliasing(0.9, 4)))
    first = find_all_findings(short)[0]
    assert first.sentence.endswith("too few for k = 6; use --neighbours 4, or a larger --batch.")
    assert "plane-1" in first.sentence
    shorter = dataclasses.replace(short, smallest=np.array([90, 4]))
    assert find_all_findings(shorter)[0].settings == {"batch": 12, "trajectories": 96}


def test_early_ends_leave_fewer_particles_than_neighbours(config):
    short = am.gymnasium_class({"one": lambda: Walk(ends=0.5), "two": Walk}, workers=1, name="walks")
    try:
        found = diagnose(short, dataclasses.replace(config, normalise=True), batches=6)
    finally:
        short.fleet.close()
    assert found.fewest <= config.neighbours
    assert found.lengths[0] < 4
    assert found.lengths[1] == config.horizon
    first = find_all_findings(found)[0]
    assert "too few for k = 6" in first.sentence
    assert found.bounds.ends


def test_entropies_are_those_enumerated():
    """In chains with `spread`, the entropy of the particles is that of the states."""
    random = np.random.default_rng(0)
    exact = [
        Exact(np.tile(random.dirichlet(np.full(4, concentration)), (2, 4, 1)), np.full(4, 0.25), np.full(4, 0.5))
        for concentration in (50.0, 0.3)
    ]
    config = am.PretrainConfig(horizon=100, trajectories=40, batch=10, neighbours=30, hidden=(4,), learning_rate=1e-4)
    found = diagnose(chain_class(exact, spread=True), config, batches=6)
    for i, one in enumerate(exact):
        truth = entropy_of_distance_cells(one.reached(100))
        assert found.entropies[i].mean() == pytest.approx(truth, abs=0.08)
        assert found.ceilings[i] == pytest.approx(np.log(4))
    assert found.aliasing[0].coinciding < 0.01
    # The states are independent, so that neighbours are of the same trajectory only as often as by chance.
    assert found.own_neighbours == pytest.approx([0.1, 0.1], abs=0.02)
    assert found.lengths.tolist() == [100.0, 100.0]
    assert found.fewest == 1000
    # The particles are independent, so that the entropy is that of the states with any k and B.
    for sensitivity in (found.by_neighbours, found.by_batch):
        assert len(sensitivity.settings) >= 3
        for i, one in enumerate(exact):
            np.testing.assert_allclose(
                sensitivity.entropies[:, i], entropy_of_distance_cells(one.reached(100)), atol=0.25
            )
    assert found.by_batch.settings == (5, 10, 20, 40)
    assert found.by_neighbours.settings == (7, 15, 30, 60, 120)
    assert found.observations.mean[0] == pytest.approx(
        np.mean([one.acted_in(100) @ np.arange(4) for one in exact]), abs=0.1
    )


def test_trajectories_measured_against_themselves_are_told(found):
    apart = dataclasses.replace(found, own_neighbours=np.array([0.3, 0.9]))
    (finding,) = [one for one in find_all_findings(apart) if "are of its own trajectory" in one.sentence]
    assert finding.serious
    assert finding.sentence.startswith("Member plane-1: 90%")
    assert finding.settings == {"batch": 12, "trajectories": 96}
    often = find_all_findings(dataclasses.replace(found, own_neighbours=np.array([0.3, 0.55])))
    assert any(one.sentence.endswith("use a larger --batch than 3.") and not one.serious for one in often)


def test_the_line_says_what_was_given_and_what_is_suggested(found):
    from alphamepol.cli.main import _parse_main_arguments

    asked = dataclasses.replace(found.config, alpha=0.5, learning_rate=1e-3)
    named = dataclasses.replace(found, class_name="gridworld-slope", config=asked, own_neighbours=np.array([0.3, 0.9]))
    findings = find_all_findings(named)
    line = command_of_findings(named, findings)
    assert line.startswith("alphamepol pretrain gridworld-slope --alpha 0.5 ")
    assert "--batch 12 --neighbours 6" in line
    parsed = _parse_main_arguments(line.split()[1:])
    parsed.config.check()
    settings = {name: value for one in findings for name, value in one.settings.items()}
    assert parsed.config == dataclasses.replace(asked, **settings)


def test_the_same_seed_gives_the_same_numbers(config, found):
    one, other = found, diagnose(planes(), config, batches=6)
    np.testing.assert_array_equal(one.entropies, other.entropies)
    assert one.bounds.to_dict() == other.bounds.to_dict()
    assert one.learned == other.learned


def test_diagnostics_along_pre_training_change_nothing_that_is_learned(config, tmp_path):
    settings = dataclasses.replace(config, epochs=3, alpha=0.8, seeds=2, checkpoint_every=1, evaluation_batches=3)
    gridworlds = am.make("gridworld-slope")
    plain = am.pretrain(gridworlds, settings, folder=tmp_path / "plain", quiet=True)
    measured = dataclasses.replace(settings, diagnostics=True)
    told = am.pretrain(gridworlds, measured, folder=tmp_path / "told", quiet=True)
    for seed in (0, 1):
        files = [run.folder / "policy" / f"seed-{seed}.safetensors" for run in (plain, told)]
        assert files[0].read_bytes() == files[1].read_bytes()
    lines = [json.loads(line) for line in (told.folder / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 6
    for line in lines:
        assert 0 < line["effective_share"] <= 1
        found = line["diagnostics"]
        assert found["smallest_safe_k"] >= 1
        if len(line["entropy"]) == 2:
            assert 0 <= found["diameter_low"] <= found["diameter_high"] <= 1
            assert found["entropy_gap"] <= found["sharp_entropy_gap_bound"] + 1e-9
            assert found["one_step_bound"] >= 0
            assert {"wasserstein", "lipschitz", "baseline_bias", "baseline_crossing"} <= found.keys()
    assert (told.folder / "figures" / "diagnostics.png").is_file()
    assert "diagnostics" in told.summary["seconds"]
    assert "diagnostics" not in plain.summary["seconds"]
    assert not (plain.folder / "figures" / "diagnostics.png").exists()
