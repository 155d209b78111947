"""Test that the files in results/ agree with the runs there and with the docs."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from alphamepol import load_policy, make
from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.policies.files import released_policy_files
from alphamepol.policies.shape import check_policy_shape
from alphamepol.reproduction.catalogue import catalogue_of_experiments
from alphamepol.reproduction.claims import decide_claim
from alphamepol.reproduction.report import report_claims_as_markdown
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Store

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


@pytest.fixture(scope="module")
def decisions():
    store = Store(RESULTS)
    return [decide_claim(claim, store) for one in catalogue_of_experiments(Scale("paper")) for claim in one.claims]


def test_the_verdicts_are_those_of_the_runs(decisions) -> None:
    kept = json.loads((RESULTS / "claims.json").read_text())
    for decision, written in zip(decisions, kept, strict=True):
        found = decision.to_dict()
        assert (found["id"], found["verdict"]) == (written["id"], written["verdict"])
        for one, other in zip(found["statements"], written["statements"], strict=True):
            assert one["verdict"] == other["verdict"]
            if one["found"] is not None:
                assert one["found"]["value"] == pytest.approx(other["found"]["value"], abs=1e-6)
                interval = other["found"]["interval"]
                assert one["found"]["interval"] == (interval and pytest.approx(interval, abs=1e-6))


def test_the_page_of_the_docs_has_the_table_of_claims(decisions) -> None:
    table = report_claims_as_markdown(decisions)
    assert table == (RESULTS / "claims.md").read_text()
    assert table in (ROOT / "docs/reproduction.md").read_text()


def test_every_claim_is_a_row_of_the_page(decisions) -> None:
    page = (RESULTS / "report.html").read_text()
    claims = page[page.index('id="claims"') : page.index("</section>")]
    assert re.findall(r"<tr><td><code>([a-z-]+)</code>", claims) == [decision.claim.id for decision in decisions]


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("evaluation.safetensors")), ids=lambda path: path.parent.name)
def test_a_summary_has_the_numbers_of_its_evaluation(path: Path) -> None:
    """Tables and claims read the summary, and heat-maps the evaluation. Both must show the same numbers."""
    summary, found = summary_of(path.parent), load_evaluation(path).to_dict()
    for name in ("entropy", "mean", "cvar"):
        assert summary[name] == (
            {member: pytest.approx(values, abs=2e-4) for member, values in found[name].items()}
            if name == "entropy"
            else pytest.approx(found[name], abs=2e-4)
        )


def summary_of(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


SLOPE = ("gridworld-slope-alpha-0.2-12240309", "gridworld-slope-alpha-1-97f7162d")
ANT = ("ant/alpha-0.2", "ant/alpha-1", "ant-stairs-random-01715643")
GRID = ("minigrid-alpha-0.2-evaluated", "minigrid-alpha-1-evaluated", "minigrid-random-041d0891")
SLOPE_AND_MORE = (*SLOPE, "../memory/gridworld-slope/recurrent-alpha-1", "gridworld-slope-random-014980b8")
ROWS = [
    ("README.md", "entropy in GWS", "entropy", "GWS", SLOPE_AND_MORE),
    ("README.md", "entropy in GWN", "entropy", "GWN", SLOPE_AND_MORE),
    ("docs/results.md", "GWS (p = 0.8)", "entropy", "GWS", SLOPE),
    ("docs/results.md", "GWN (p = 0.2)", "entropy", "GWN", SLOPE),
    ("docs/environments.md", "Down (p = 0.8)", "entropy", "Down", ANT),
    ("docs/environments.md", "Up (p = 0.2)", "entropy", "Up", ANT),
    ("docs/minigrid.md", "EasyG: entropy", "entropy", "EasyG", GRID),
    ("docs/minigrid.md", "AdvG: entropy", "entropy", "AdvG", GRID),
    ("docs/minigrid.md", "EasyG: cells per mini-batch", "cells_per_minibatch", "EasyG", GRID),
    ("docs/minigrid.md", "AdvG: cells per mini-batch", "cells_per_minibatch", "AdvG", GRID),
]
"""Rows of tables in the docs: page, beginning of the row, entry of the summary, member, and the run of each column."""


@pytest.mark.parametrize(("page", "row", "entry", "member", "runs"), ROWS)
def test_a_table_of_the_docs_has_the_numbers_of_the_runs(page, row, entry, member, runs) -> None:
    (line,) = [line for line in (ROOT / page).read_text().splitlines() if line.startswith(f"| {row}")]
    for cell, run in zip(line.split("|")[2:], runs, strict=False):
        written = cell.split()[0].replace("−", "-")
        decimals = len(written.partition(".")[2])
        mean = np.mean(summary_of(RESULTS / "runs" / run)[entry][member])
        assert float(written) == pytest.approx(mean, abs=0.501 * 10**-decimals), (page, row, run)


def test_every_released_policy_acts_in_its_class() -> None:
    released = released_policy_files()
    assert {"gridworld-slope/alpha-0.2", "multigrid/alpha-0.1", "minigrid/alpha-0.2", "ant-stairs/alpha-0.2"} <= set(
        released
    )
    for name, path in released.items():
        assert path == RESULTS / "policies" / f"{name}.safetensors"
        check_policy_shape(load_policy(name), make(name.partition("/")[0]))


def test_results_name_no_place_on_a_machine() -> None:
    for path in RESULTS.rglob("*.json"):
        assert not re.search(r'"[^"]*/(tmp|home|root|work|mnt|Users)/', path.read_text()), path
