"""Verdicts follow from intervals, and every claim of the paper is there."""

import dataclasses

import numpy as np
import pytest

from alphamepol import InputError, PretrainConfig
from alphamepol.experiments.catalogue import all_experiments, choose
from alphamepol.experiments.claims import (
    Claim,
    Quantity,
    above,
    alike,
    below,
    decide,
    final_return,
    greater,
    rising,
)
from alphamepol.experiments.planned import Finetuning, Pretraining
from alphamepol.experiments.scale import Scale
from alphamepol.experiments.slope import lower_tail
from alphamepol.experiments.store import Stored
from alphamepol.runs.config import FinetuneConfig
from alphamepol.statistics import Sample

CLAIMS = {
    *("slope-mean", "slope-easy", "slope-adverse", "slope-robust", "slope-tail", "alpha-dial", "alpha-composition"),
    *("slope-everywhere", "slope-finetune", "multigrid-explore", "multigrid-finetune", "ant-explore", "ant-finetune"),
    *("minigrid-finetune", "meta", "meta-adapts", "counter-grid", "counter-minigrid", "baseline"),
}
RUN = Pretraining("gridworld-slope", PretrainConfig())


class Everything:
    """A store in which every run is done."""

    def __init__(self, shortfall: str = "", share: float = 1.0):
        self.shortfall, self.share = shortfall, share

    def find(self, planned) -> Stored:
        return Stored(None, {}, planned.config, planned.identity, self.shortfall, self.share)


class Nothing:
    def find(self, planned) -> None:
        return None


def numbers(name: str, *values: float) -> Quantity:
    return Quantity(name, RUN, lambda stored: Sample.of_seeds([float(value) for value in values]))


HIGH, LOW, WIDE = numbers("high", 2.0, 2.1, 2.2), numbers("low", 1.0, 1.1, 1.2), numbers("wide", 0.0, 1.1, 2.4)


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        (greater(HIGH, LOW), "holds"),
        (greater(LOW, HIGH), "fails"),
        (greater(HIGH, WIDE), "undecided"),
        (greater(HIGH, LOW, by=0.5), "holds"),
        (greater(HIGH, LOW, by=1.5), "fails"),
        (greater(HIGH, LOW, by=1.0), "undecided"),
        (greater(LOW, LOW, by=-0.3), "holds"),
        (greater(LOW, HIGH, by=-0.5), "fails"),
        (alike(LOW, LOW, within=0.3), "holds"),
        (alike(HIGH, LOW, within=0.3), "fails"),
        (alike(LOW, HIGH, within=0.3), "fails"),
        (alike(HIGH, LOW, within=1.0), "undecided"),
        (alike(LOW, WIDE, within=0.3), "undecided"),
        (above(LOW, 0.5), "holds"),
        (above(LOW, 1.5), "fails"),
        (above(LOW, 1.1), "undecided"),
        (below(LOW, 1.5), "holds"),
        (below(LOW, 0.5), "fails"),
        (greater(numbers("one", 2), numbers("other", 1)), "undecided"),
    ],
)
def test_the_whole_interval_must_say_so(statement, verdict) -> None:
    (part,) = decide(Claim("id", "says", (statement,)), Everything()).parts
    assert part.verdict == verdict


def test_a_claim_fails_with_one_statement_and_holds_with_all() -> None:
    holds, fails, undecided = greater(HIGH, LOW), greater(LOW, HIGH), greater(HIGH, WIDE)

    def verdict(*statements):
        return decide(Claim("id", "says", statements), Everything()).verdict

    assert verdict(holds, holds) == "holds"
    assert verdict(holds, undecided) == "undecided"
    assert verdict(holds, undecided, fails) == "fails"


def test_what_was_not_run_is_undecided_and_named() -> None:
    (part,) = decide(Claim("id", "says", (greater(HIGH, LOW),)), Nothing()).parts
    assert (part.verdict, part.found, part.missing) == ("undecided", None, ("gridworld-slope-alpha-0.2",))
    assert part.to_dict()["missing"] == ["gridworld-slope-alpha-0.2"]


def test_the_numbers_stand_beside_the_verdict() -> None:
    decision = decide(Claim("id", "says", (greater(HIGH, LOW),)), Everything("30 of 100 epochs")).to_dict()
    (part,) = decision["statements"]
    assert decision["verdict"] == part["verdict"] == "holds"
    assert part["found"]["value"] == pytest.approx(1.0)
    assert [term["mean"]["value"] for term in part["terms"]] == pytest.approx([2.1, 1.1])
    assert part["probability_of_improvement"]["value"] == 1
    assert part["rule"] == "above 0"
    assert part["shortfalls"] == ["gridworld-slope-alpha-0.2: 30 of 100 epochs"]


def test_less_than_half_of_what_was_planned_decides_nothing() -> None:
    claim = Claim("id", "says", (greater(HIGH, LOW),))
    assert decide(claim, Everything("60 of 100 epochs", 0.6)).verdict == "holds"
    little = decide(claim, Everything("30 of 100 epochs", 0.3))
    assert little.verdict == "undecided"
    assert little.parts[0].found.value == pytest.approx(1.0)


def test_rising_asks_for_the_ends_and_forgives_small_steps_down() -> None:
    dip = numbers("dip", 0.95, 1.05, 1.15)
    assert decide(Claim("id", "", rising([LOW, dip, HIGH], slack=0.3)), Everything()).verdict == "holds"
    deep = numbers("deep", 0.0, 0.1, 0.2)
    assert decide(Claim("id", "", rising([LOW, deep, HIGH], slack=0.3)), Everything()).verdict == "fails"
    assert decide(Claim("id", "", rising([HIGH, LOW])), Everything()).verdict == "fails"


def test_final_returns_are_of_every_task_and_seed() -> None:
    run = Finetuning("gridworld-slope", "GWN", FinetuneConfig(tasks=2, seeds=3, iterations=2), RUN)
    stored = Everything().find(run)
    by_seed = np.arange(12.0).reshape(3, 2, 2)  # seeds, tasks, iterations
    vars(stored)["summary"] = {"returns_by_seed": by_seed.tolist(), "returns": by_seed.mean(axis=0).tolist()}
    sample = final_return(run).read(stored)
    np.testing.assert_array_equal(sample.values, [1, 5, 9, 3, 7, 11])
    np.testing.assert_array_equal(sample.tasks, [0, 0, 0, 1, 1, 1])
    alone = Everything().find(dataclasses.replace(run, init=None))
    vars(alone)["summary"] = {"returns": by_seed.mean(axis=0).tolist()}
    np.testing.assert_array_equal(final_return(run).read(alone).values, [5, 7])


def test_a_heavy_lower_tail_is_deep() -> None:
    stored = Everything().find(RUN)
    easy, adverse = np.zeros(100), np.full(100, -3.0)
    vars(stored)["evaluation"] = type(
        "Evaluation", (), {"trajectory_entropies": np.stack([[easy, adverse]]), "probabilities": (0.8, 0.2)}
    )
    assert lower_tail(RUN).read(stored).values == pytest.approx([3.0])
    vars(stored)["evaluation"].probabilities = (0.95, 0.05)
    assert lower_tail(RUN).read(stored).values == pytest.approx([1.5])


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_claim_of_the_paper_is_there_once(scale) -> None:
    experiments = all_experiments(Scale(scale))
    ids = [claim.id for experiment in experiments for claim in experiment.claims]
    assert sorted(ids) == sorted(CLAIMS)
    names = [drawing.name for experiment in experiments for drawing in experiment.drawings]
    assert len(names) == len(set(names))
    for experiment in experiments:
        for run in experiment.runs:
            run.config.check()


def test_the_paper_scale_has_the_papers_seeds() -> None:
    for experiment in all_experiments(Scale("paper")):
        for claim in experiment.claims:
            for run in claim.runs:
                if run.command == "pretrain" and not run.config.probabilities:
                    few = {"counter-grid": 4, "baseline": 4, "counter-minigrid": 8}
                    assert run.config.seeds == few.get(claim.id, 10)


def test_a_claim_takes_only_the_runs_that_it_needs() -> None:
    experiments = all_experiments(Scale("quick"))
    claims, runs = choose(experiments, ["slope-adverse"])
    assert [claim.id for claim in claims] == ["slope-adverse"]
    assert [run.config.alpha for run in runs] == [0.2, 1.0]
    claims, runs = choose(experiments, ["slope-finetune", "slope-adverse"])
    assert len(claims) == 2
    places = {run: number for number, run in enumerate(runs)}
    assert len(places) == len(runs) == 2 + 5  # Random in GWS is for the figure alone
    assert all(places[needed] < places[run] for run in runs for needed in run.needs)
    everything = choose(experiments, ["all"])[1]
    assert len(everything) == len(set(everything)) > 50
    assert len(choose(experiments, ["slope"])[0]) == 5


def test_what_is_not_known_is_said_with_a_hint() -> None:
    experiments = all_experiments(Scale("quick"))
    with pytest.raises(InputError, match=r"what: 'slope-advers' is no experiment .* did you mean 'slope-adverse'\?"):
        choose(experiments, ["slope-advers"])
    with pytest.raises(InputError, match="choose from slope, alphas"):
        choose(experiments, ["xyz"])
