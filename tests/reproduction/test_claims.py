"""Test that verdicts follow from intervals, and that the catalogue has every claim of the paper."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from alphamepol import Evaluation, InputError, PretrainConfig
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.estimation import statistics
from alphamepol.estimation.statistics import Estimate, Sample, contrast_statistic
from alphamepol.measuring.visits import VisitMap
from alphamepol.reproduction.catalogue import catalogue_of_experiments, choose_from_catalogue
from alphamepol.reproduction.claims import (
    Claim,
    Quantity,
    claim_above,
    claim_alike,
    claim_below,
    claim_greater,
    claim_rising,
    claimed_final_return,
    decide_claim,
)
from alphamepol.reproduction.paper.slope import slope_experiment_lower_tail
from alphamepol.reproduction.planned import Finetuning, Pretraining
from alphamepol.reproduction.report.claim_lists import report_claims_as_markdown, report_claims_list
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Stored

CLAIMS = {
    *("slope-mean", "slope-easy", "slope-adverse", "slope-robust", "slope-tail", "alpha-dial", "alpha-composition"),
    *("slope-everywhere", "slope-finetune", "multigrid-explore", "multigrid-finetune", "ant-explore", "ant-finetune"),
    *("minigrid-finetune", "meta", "meta-adapts", "counter-grid", "counter-minigrid", "baseline"),
}
SEEDS = {"counter-grid": 4, "baseline": 16, "counter-minigrid": 8}
"""The seeds of pre-training at the scale of the paper, for claims with other than ten."""
RUN = Pretraining("gridworld-slope", PretrainConfig())


class Everything:
    """A store in which every run is done. `fill` returns the summary and the evaluation of a run."""

    def __init__(self, shortfall: str = "", share: float = 1.0, fill=None):
        self.shortfall, self.share, self.fill = shortfall, share, fill or (lambda planned: ({}, None))

    def find(self, planned) -> Stored:
        stored = Stored(Path("nowhere"), {}, planned.config, planned.identity, self.shortfall, self.share)
        vars(stored)["summary"], vars(stored)["evaluation"] = self.fill(planned)
        return stored


class Nothing:
    def find(self, planned) -> None:
        return None


def numbers(name: str, *values: float) -> Quantity:
    run = dataclasses.replace(RUN, config=PretrainConfig(seed=sum(map(ord, name))))
    return Quantity(name, run, lambda stored: Sample.of_seeds([float(value) for value in values]))


HIGH, LOW = numbers("high", 2.0, 2.01, 2.02, 2.03), numbers("low", 1.0, 1.01, 1.02, 1.03)
WIDE = numbers("wide", 0.0, 1.1, 2.4, 0.5)


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        (claim_greater(HIGH, LOW), "holds"),
        (claim_greater(LOW, HIGH), "fails"),
        (claim_greater(HIGH, WIDE), "undecided"),
        (claim_greater(HIGH, LOW, by=0.5), "holds"),
        (claim_greater(HIGH, LOW, by=1.5), "fails"),
        (claim_greater(HIGH, LOW, by=0.99), "undecided"),
        (claim_greater(LOW, LOW, by=-0.3), "holds"),
        (claim_greater(LOW, HIGH, by=-0.5), "fails"),
        (claim_alike(LOW, LOW, within=0.3), "holds"),
        (claim_alike(HIGH, LOW, within=0.3), "fails"),
        (claim_alike(LOW, HIGH, within=0.3), "fails"),
        (claim_alike(HIGH, LOW, within=1.01), "undecided"),
        (claim_alike(LOW, WIDE, within=0.3), "undecided"),
        (claim_above(LOW, 0.5), "holds"),
        (claim_above(LOW, 1.5), "fails"),
        (claim_above(LOW, 1.01), "undecided"),
        (claim_below(LOW, 1.5), "holds"),
        (claim_below(LOW, 0.5), "fails"),
        (claim_below(LOW, 1.01), "undecided"),
        (claim_greater(numbers("one", 2), numbers("other", 1)), "undecided"),
    ],
)
def test_the_whole_interval_must_say_so(statement, verdict) -> None:
    (part,) = decide_claim(Claim("id", "says", (statement,)), Everything()).parts
    assert part.verdict == verdict


NEAR = (0.31, 0.52, 0.9, 1.17, 1.26, 1.8, 2.05, 2.2)
"""Numbers of eight seeds. The interval of their mean begins at 0.6975; with 10 000 resamples at 0.68 to 0.71."""


def test_a_verdict_near_its_limit_does_not_depend_on_the_seed_of_the_bootstrap(monkeypatch) -> None:
    sample, statement = Sample.of_seeds(NEAR), claim_above(numbers("near", *NEAR), 0.6865)
    usual, verdicts = set(), set()
    for seed in range(25):
        monkeypatch.setattr(statistics, "BOOTSTRAP_SEED", seed)
        usual.add(contrast_statistic([(1.0, sample)]).interval[0] > 0.6865)
        verdicts.add(statement.judge(contrast_statistic([(1.0, sample)], settled=statement.is_settled_by)))
    assert usual == {True, False}
    assert verdicts == {"holds"}


def test_a_statement_says_how_many_resamples_it_needed() -> None:
    (part,) = decide_claim(Claim("id", "says", (claim_above(numbers("near", *NEAR), 0.6865),)), Everything()).parts
    assert (part.verdict, part.to_dict()["resamples"]) == ("holds", 160_000)
    assert part.precision.startswith(
        " The interval ends near its limit: with 160\N{NO-BREAK SPACE}000 resamples it is ["
    )
    (part,) = decide_claim(Claim("id", "says", (claim_above(HIGH, 1.5),)), Everything()).parts
    assert (part.precision, part.to_dict()["resamples"]) == ("", 10_000)


def test_an_interval_that_ends_at_its_limit_decides_nothing_and_says_so(monkeypatch) -> None:
    monkeypatch.setattr(statistics, "MOST_RESAMPLES", 4 * statistics.RESAMPLES)
    statement = claim_above(numbers("near", *NEAR), 0.6975)
    (part,) = decide_claim(Claim("id", "says", (statement,)), Everything()).parts
    assert (part.verdict, part.found.resamples) == ("undecided", 40_000)
    assert "ends within the precision of the bootstrap at its limit" in part.precision
    low, error = part.found.interval[0], part.found.simulation_errors[0]
    assert low - error < 0.6975 < low + error
    assert part.to_dict()["simulation_errors"] == list(part.found.simulation_errors)


@pytest.mark.parametrize(
    ("statement", "interval", "least", "most"),
    [
        # The interval must become half as wide: t/√n of 10 units is 0.715, and of 32 units 0.361, of 33 0.355.
        (claim_above(WIDE, 0.0), (1.0, -1.0, 3.0), 33, 33),
        (claim_below(WIDE, 2.0), (1.0, -1.0, 3.0), 33, 33),
        (claim_alike(WIDE, LOW, within=1.0), (0.0, -2.0, 2.0), 33, 33),
        # Above the upper limit of two: only this limit counts.
        (claim_alike(WIDE, LOW, within=1.0), (2.0, 0.0, 4.0), 33, 33),
        (claim_alike(WIDE, LOW, within=1.0), (-2.0, -4.0, 0.0), 33, 33),
        # The nearer of two limits decides.
        (claim_alike(WIDE, LOW, within=1.0), (0.5, -0.4, 1.5), 33, 33),
        (claim_above(WIDE, 0.0), (1.0, -0.01, 2.0), 10, 11),
    ],
)
def test_an_undecided_statement_says_how_many_seeds_would_decide_it(statement, interval, least, most) -> None:
    value, low, high = interval
    needed = statement.units_to_decide(Estimate(value, (low, high)), 10)
    assert least <= needed <= most


def test_a_number_at_its_limit_would_not_be_decided_by_more_seeds() -> None:
    assert claim_above(WIDE, 1.0).units_to_decide(Estimate(1.0, (0.0, 2.0)), 10) is None


def test_what_would_decide_a_claim_is_told() -> None:
    (part,) = decide_claim(Claim("id", "says", (claim_greater(HIGH, WIDE),)), Everything()).parts
    assert part.units == 4
    assert part.units_needed > 4
    assert part.power == f" About {part.units_needed} seeds, instead of 4, would be expected to decide it."
    assert part.to_dict()["units_needed"] == part.units_needed
    (part,) = decide_claim(Claim("id", "says", (claim_greater(HIGH, LOW),)), Everything()).parts
    assert (part.power, part.units_needed) == ("", None)
    (part,) = decide_claim(Claim("id", "says", (claim_greater(HIGH, LOW),)), Everything("3 of 9 epochs", 0.3)).parts
    assert part.power == " First, the planned work has to be done."
    two = claim_greater(numbers("one", 2, 3), numbers("other", 1, 2))
    (part,) = decide_claim(Claim("id", "says", (two,)), Everything()).parts
    assert part.power == " An interval needs at least 3 seeds."
    (part,) = decide_claim(Claim("id", "says", (two,)), Nothing()).parts
    assert part.power == ""


def test_an_earlier_reading_is_decided_and_shown_beside_the_present_one() -> None:
    earlier = Claim("id", "LOW is above HIGH.", (claim_greater(LOW, HIGH),))
    claim = Claim("id", "HIGH is above LOW.", (claim_greater(HIGH, LOW),), quote="higher", earlier=earlier)
    decision = decide_claim(claim, Everything())
    assert (decision.verdict, decision.earlier.verdict) == ("holds", "fails")
    written = decision.to_dict()
    assert (written["verdict"], written["earlier"]["verdict"], written["quote"]) == ("holds", "fails", "higher")
    markdown = report_claims_as_markdown([decision])
    assert '- `id`: holds. HIGH is above LOW. The paper says: "higher".' in markdown
    assert "The earlier reading: fails. LOW is above HIGH." in " ".join(markdown.split())
    assert "| `id` | holds | 1 | 0 | 0 |" in markdown
    page = str(report_claims_list([decision]))
    assert "The earlier reading: fails." in page


def test_a_claim_fails_with_one_statement_and_holds_with_all() -> None:
    holds, fails, undecided = claim_greater(HIGH, LOW), claim_greater(LOW, HIGH), claim_greater(HIGH, WIDE)

    def verdict(*statements):
        return decide_claim(Claim("id", "says", statements), Everything()).verdict

    assert verdict(holds, holds) == "holds"
    assert verdict(holds, undecided) == "undecided"
    assert verdict(holds, undecided, fails) == "fails"


def test_what_was_not_run_is_undecided_and_named() -> None:
    (part,) = decide_claim(Claim("id", "says", (claim_greater(HIGH, LOW),)), Nothing()).parts
    assert (part.verdict, part.found, part.missing) == ("undecided", None, ("gridworld-slope-alpha-0.2",) * 2)
    assert part.to_dict()["missing"] == ["gridworld-slope-alpha-0.2"] * 2


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_decide_nothing(odd) -> None:
    (part,) = decide_claim(Claim("id", "says", (claim_above(numbers("odd", 1, 2, odd), 0.0),)), Everything()).parts
    assert (part.verdict, part.found) == ("undecided", None)
    assert part.missing == ("gridworld-slope-alpha-0.2, which did not keep its finite numbers",)


def test_the_numbers_stand_beside_the_verdict() -> None:
    decision = decide_claim(Claim("id", "says", (claim_greater(HIGH, LOW),)), Everything("30 of 100 epochs")).to_dict()
    (part,) = decision["statements"]
    assert decision["verdict"] == part["verdict"] == "holds"
    assert part["found"]["value"] == pytest.approx(1.0)
    assert [term["mean"]["value"] for term in part["terms"]] == pytest.approx([2.015, 1.015])
    assert part["probability_of_improvement"]["value"] == 1
    assert part["rule"] == "above 0"
    assert part["shortfalls"] == ["gridworld-slope-alpha-0.2: 30 of 100 epochs"] * 2


def test_less_than_half_of_what_was_planned_decides_nothing() -> None:
    claim = Claim("id", "says", (claim_greater(HIGH, LOW),))
    assert decide_claim(claim, Everything("60 of 100 epochs", 0.6)).verdict == "holds"
    assert decide_claim(claim, Everything("3 of 6 seeds", 0.5)).verdict == "holds"
    little = decide_claim(claim, Everything("30 of 100 epochs", 0.3))
    assert little.verdict == "undecided"
    assert little.parts[0].found.value == pytest.approx(1.0)


def test_rising_asks_for_the_ends_and_forgives_small_steps_down() -> None:
    dip = numbers("dip", 0.95, 0.96, 0.97, 0.98)
    assert decide_claim(Claim("id", "", claim_rising([LOW, dip, HIGH], slack=0.3)), Everything()).verdict == "holds"
    deep = numbers("deep", 0.0, 0.01, 0.02, 0.03)
    assert decide_claim(Claim("id", "", claim_rising([LOW, deep, HIGH], slack=0.3)), Everything()).verdict == "fails"
    assert decide_claim(Claim("id", "", claim_rising([HIGH, LOW])), Everything()).verdict == "fails"


def test_final_returns_are_of_every_task_and_seed() -> None:
    run = Finetuning("gridworld-slope", "GWN", TrpoConfig(tasks=2, seeds=3, iterations=2), RUN)
    stored = Everything().find(run)
    by_seed = np.arange(12.0).reshape(3, 2, 2)  # seeds, tasks, iterations
    vars(stored)["summary"] = {"returns_by_seed": by_seed.tolist(), "returns": by_seed.mean(axis=0).tolist()}
    sample = claimed_final_return(run).read(stored)
    np.testing.assert_array_equal(sample.values, [1, 5, 9, 3, 7, 11])
    np.testing.assert_array_equal(sample.tasks, [0, 0, 0, 1, 1, 1])
    alone = Everything().find(dataclasses.replace(run, init=None))
    vars(alone)["summary"] = {"returns": by_seed.mean(axis=0).tolist()}
    np.testing.assert_array_equal(claimed_final_return(run).read(alone).values, [5, 7])


def test_a_heavy_lower_tail_is_deep() -> None:
    stored = Everything().find(RUN)
    easy, adverse = np.zeros(100), np.full(100, -3.0)
    vars(stored)["evaluation"] = type(
        "Evaluation", (), {"trajectory_entropies": np.stack([[easy, adverse]]), "probabilities": (0.8, 0.2)}
    )
    assert slope_experiment_lower_tail(RUN).read(stored).values == pytest.approx([3.0])
    vars(stored)["evaluation"].probabilities = (0.95, 0.05)
    assert slope_experiment_lower_tail(RUN).read(stored).values == pytest.approx([1.5])


def test_what_shares_a_run_is_resampled_together_and_other_tasks_are_not_compared() -> None:
    tasks = iter(["a", "b"])
    mixed = Everything(fill=lambda planned: ({"returns": [[1.0], [2.0]], "tasks": [next(tasks)]}, None))
    runs = [Finetuning("gridworld-slope", "GWN", TrpoConfig(tasks=2, seed=seed)) for seed in range(2)]
    (part,) = decide_claim(Claim("id", "says", (claim_greater(*map(claimed_final_return, runs)),)), mixed).parts
    assert part.verdict == "undecided"
    assert "on the same tasks" in part.missing[0]


# The numbers of a made-up world in which all claims of the paper hold.
GWN = {1.0: -1.5, 0.7: -1.2, 0.5: -0.6, 0.35: 0.0, 0.2: 0.5, 0.1: 0.55}
GWS = {1.0: 1.03, 0.7: 1.0, 0.5: 0.9, 0.35: 0.7, 0.2: 0.5, 0.1: 0.45}
ENTROPIES = {
    "gridworld-slope": {"GWS": GWS, "GWN": GWN},
    "gridworld-slope-everywhere": {"GWS": {0.2: 0.4, 1.0: 1.0}, "GWN": {0.2: 0.3, 1.0: -2.5}},
    "multigrid": {"MG0": {0.1: 0.2, 1.0: -0.4}, "MG1": {0.1: 0.4, 1.0: 1.1}},
    "gridworld-counterexample": {"four-rooms": {0.35: 0.8, 1.0: 0.8}, "two-halls": {0.35: 0.7, 1.0: 0.7}},
    "ant-stairs": {"Down": {0.2: 3.0, 1.0: 2.7}, "Up": {0.2: 0.6, 1.0: 0.1}},
    "minigrid": {"EasyG": {0.2: -40.0, 1.0: -35.0}, "AdvG": {0.2: -150.0, 1.0: -160.0}},
    "minigrid-counterexample": {"Unlock": {0.2: -66.0, 1.0: -66.0}, "ObstructedMaze": {0.2: -45.0, 1.0: -45.0}},
}
RETURNS = {
    "GWS": {"αMEPOL": 0.95, "MEPOL": 0.98, "MAML+R": 0.7, "MAML+DIAYN": 0.4, "Random": 0.6},
    "GWN": {"αMEPOL": 0.97, "MEPOL": 0.4, "MAML+R": 0.6, "MAML+DIAYN": 0.3, "Random": 0.38},
    "MG0": {"αMEPOL": 0.9, "MEPOL": 0.6, "MAML+R": 0.7, "MAML+DIAYN": 0.3, "Random": 0.4},
    "Up": {"αMEPOL": 0.6, "MEPOL": 0.1, "Random": 0.09},
    "EasyG": {"αMEPOL": 0.9, "MEPOL": 0.97, "Random": 0.5},
    "AdvG": {"αMEPOL": 0.8, "MEPOL": 0.5, "Random": 0.2},
}
MIRRORED = {1.0: 0.1, 0.7: 0.2, 0.5: 0.35, 0.35: 0.5, 0.2: 0.7, 0.1: 1.0}


class World:
    """The made-up numbers of all runs. If mirrored, methods have changed places, and other comparisons are reversed."""

    def __init__(self, *, mirrored: bool = False):
        self.mirrored = mirrored

    def __call__(self, planned):
        seeds = planned.config.seeds
        noise = 0.01 * np.linspace(-1, 1, seeds)
        if planned.command == "finetune":
            return self._returns(planned), None
        if planned.command == "metatrain":
            before, after = np.full((seeds, 20), 0.4) + noise[:, None], np.full((seeds, 20), 0.5)
            before, after = (after, before) if self.mirrored else (before, after)
            grown = (planned.class_name == "gridworld-slope") != self.mirrored
            curve = np.linspace(-2.9, -1.0 if grown else -2.8, 100) + noise[:, None]
            parts = {"return_before": before, "return_after": after, "discriminability": curve}
            return {name: value.tolist() for name, value in parts.items()}, None
        if planned.command == "gradient-variance":
            large, small = (2 + noise).tolist(), (1 - noise).tolist()
            with_b, without = (large, small) if self.mirrored else (small, large)
            along = {
                name: np.transpose([values] * len(planned.checkpoints)).tolist()
                for name, values in (("with_baseline", with_b), ("without", without))
            }
            final = {"variance_with_baseline": with_b, "variance_without": without}
            return final | {f"action_mean_variance_{name}": values for name, values in along.items()}, None
        return self._explored(planned, noise)

    def _returns(self, planned):
        label = planned.label.split(" (")[0]
        if self.mirrored:
            label = {"αMEPOL": "MEPOL", "MEPOL": "αMEPOL"}.get(label, label)
        number = RETURNS[planned.member][label]
        values = number + 0.01 * np.linspace(-1, 1, planned.config.tasks)
        by_seed = np.tile(values[:, None], (planned.config.seeds, 1, 1))
        return {"returns_by_seed": by_seed.tolist(), "returns": values[:, None].tolist(), "tasks": []}

    def _explored(self, planned, noise):
        alpha = planned.config.alpha
        known = ENTROPIES[planned.class_name]
        if self.mirrored and planned.class_name == "gridworld-slope":
            alpha = MIRRORED[alpha]
        elif self.mirrored:
            alpha = next(one for one in next(iter(known.values())) if one != alpha)
        entropy = {member: of_alpha[alpha] + noise for member, of_alpha in known.items()}
        if getattr(planned, "member_alone", None) is not None:
            entropy = dict.fromkeys(known, 1.05 + noise)
        if planned.command == "untrained":
            entropy = dict.fromkeys(known, (3.0 if self.mirrored else -3.0) + noise)
        members = list(entropy)
        probabilities = (0.8, 0.2) if len(members) == 2 and "MG0" not in members else (0.5, 0.5)
        shares = np.zeros((len(noise), len(members), 10, 10))
        south = 0.6 if self.mirrored else 0.05
        shares[:, :, 2, 3], shares[:, :, 7, 3] = south, 1 - south
        trajectories = np.stack([np.tile(entropy[member][:, None], 50) for member in members], axis=1)
        flat = np.stack(list(entropy.values()), axis=1)
        mean = flat @ np.array(probabilities)
        shift = 20.0 if self.mirrored and planned.config.alpha == 1 else 0.0
        evaluation = Evaluation(
            class_name=planned.class_name,
            members=tuple(members),
            probabilities=probabilities,
            alpha=alpha,
            seeds=tuple(range(len(noise))),
            ceilings=(1.0,) * len(members),
            entropies=flat[:, :, None] - shift,
            trajectory_entropies=trajectories,
            visits=VisitMap(shares, (-1.0, 1.0, -1.0, 1.0)),
            trails=None,
        )
        tail = {"GWN": (1.2 - alpha - 0.2 * noise).tolist()}
        cvar = mean - (1.0 if self.mirrored and not planned.config.baseline else 0.0)
        summary = {"entropy": {member: values.tolist() for member, values in entropy.items()}}
        return summary | {"mean": (mean - shift).tolist(), "cvar": cvar.tolist(), "first_tail_share": tail}, evaluation


@pytest.fixture(scope="module")
def claims() -> dict[str, Claim]:
    return {claim.id: claim for experiment in catalogue_of_experiments(Scale("paper")) for claim in experiment.claims}


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_where_the_paper_is_right_its_claims_hold_and_in_the_mirror_they_fail(name, claims) -> None:
    right, mirror = (
        decide_claim(claims[name], Everything(fill=World(mirrored=mirrored))) for mirrored in (False, True)
    )
    assert [part.verdict for part in right.parts] == ["holds"] * len(right.parts)
    # Symmetric statements still hold if methods change places. So MEPOL is shifted, for counterexamples and means.
    if name == "counter-grid":
        assert mirror.parts[0].verdict == "fails"
    assert mirror.verdict == "fails"


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_claim_of_the_paper_is_there_once(scale) -> None:
    experiments = catalogue_of_experiments(Scale(scale))
    ids = [claim.id for experiment in experiments for claim in experiment.claims]
    assert sorted(ids) == sorted(CLAIMS)
    names = [drawing.name for experiment in experiments for drawing in experiment.drawings]
    assert len(names) == len(set(names))
    for experiment in experiments:
        for run in experiment.runs:
            run.config.check()


def test_the_paper_scale_has_the_papers_seeds() -> None:
    for experiment in catalogue_of_experiments(Scale("paper")):
        for claim in experiment.claims:
            for run in claim.runs:
                if run.command == "pretrain" and not run.config.probabilities:
                    assert run.config.seeds == SEEDS.get(claim.id, 10)


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_a_run_is_planned_with_the_same_settings_by_all_experiments(scale) -> None:
    """Two runs of one name would be done twice, and one policy would replace the other among the released ones."""
    runs = choose_from_catalogue(catalogue_of_experiments(Scale(scale)), ["all"])[1]
    names = [run.name for run in runs]
    assert len(names) == len(set(names))


def test_every_policy_meets_every_task_of_minigrid(claims) -> None:
    for run in claims["minigrid-finetune"].runs:
        assert run.command != "finetune" or (run.config.seeds, run.config.tasks) == (10, 13)


def test_the_slope_everywhere_is_decided_from_both_starts(claims) -> None:
    runs = claims["slope-everywhere"].runs
    assert [(run.class_name, run.config.alpha) for run in runs[:4]] == [
        (run.class_name, run.config.alpha) for run in runs[4:]
    ]
    assert {run.config.initial_mean for run in runs[:4]} == {(-0.2, 0.2)}
    assert {run.config.initial_mean for run in runs[4:]} == {(0.0, 0.0)}
    assert all(run.name.endswith("-natural-start") and run.label.endswith(", natural start") for run in runs[4:])
    says = [statement.says for statement in claims["slope-everywhere"].statements]
    assert len(set(says)) == 4
    assert ["from the natural start" in one for one in says] == [False, False, True, True]
    assert claims["slope-everywhere"].earlier.statements == claims["slope-everywhere"].statements[:2]


def test_an_earlier_reading_has_figures_while_runs_of_the_new_one_are_missing(claims) -> None:
    class PaperStart(Everything):
        def find(self, planned):
            return None if planned.config.initial_mean == (0.0, 0.0) else super().find(planned)

    decision = decide_claim(claims["slope-everywhere"], PaperStart(fill=World()))
    assert (decision.verdict, decision.earlier.verdict, decision.was_run) == ("undecided", "holds", True)
    assert not decide_claim(claims["slope-everywhere"], Nothing()).was_run


def test_the_variance_along_training_is_that_of_the_variants_own_gradient(claims) -> None:
    (performance, variance) = claims["baseline"].statements
    assert [quantity.run.config.baseline for _, quantity in performance.terms] == [True, False]
    summary = {
        "action_mean_variance_with_baseline": [[1.0, np.e**2], [np.e, np.e]],
        "action_mean_variance_without": [[np.e**4, 1.0], [np.e**3, np.e**5]],
    }
    found = {}
    for _, quantity in variance.terms:
        assert quantity.run.checkpoints == (60, 120, 180, 240, 300)
        stored = Everything(fill=lambda _: (summary, None)).find(quantity.run)
        found[quantity.run.config.baseline] = quantity.read(stored).values.tolist()
    assert found == {True: pytest.approx([1.0, 1.0]), False: pytest.approx([2.0, 4.0])}


def test_a_claim_takes_only_the_runs_that_it_needs() -> None:
    experiments = catalogue_of_experiments(Scale("quick"))
    claims, runs = choose_from_catalogue(experiments, ["slope-adverse"])
    assert [claim.id for claim in claims] == ["slope-adverse"]
    assert [run.config.alpha for run in runs] == [0.2, 1.0]
    claims, runs = choose_from_catalogue(experiments, ["slope-finetune", "slope-adverse"])
    assert len(claims) == 2
    places = {run: number for number, run in enumerate(runs)}
    assert len(places) == len(runs) == 2 + 5  # Random in GWS is only for the figure
    assert all(places[needed] < places[run] for run in runs for needed in run.needs)
    assert [claim.id for claim in choose_from_catalogue(experiments, ["meta"])[0]] == ["meta"]
    everything = choose_from_catalogue(experiments, ["all"])[1]
    assert len(everything) == len(set(everything)) > 50
    assert len(choose_from_catalogue(experiments, ["slope"])[0]) == 5


def test_what_is_not_known_is_said_with_a_hint() -> None:
    experiments = catalogue_of_experiments(Scale("quick"))
    with pytest.raises(InputError, match=r"what: 'slope-advers' is no experiment .* did you mean 'slope-adverse'\?"):
        choose_from_catalogue(experiments, ["slope-advers"])
    with pytest.raises(InputError, match="choose from slope, alphas"):
        choose_from_catalogue(experiments, ["xyz"])
