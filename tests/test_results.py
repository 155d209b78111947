"""Test that the files in results/ agree with the runs there and with the docs."""

import json
import re
from pathlib import Path

import pytest

from alphamepol import load_policy, make
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
                assert one["found"]["interval"] == pytest.approx(other["found"]["interval"], abs=1e-6)


def test_the_page_of_the_docs_has_the_table_of_claims(decisions) -> None:
    table = report_claims_as_markdown(decisions)
    assert table == (RESULTS / "claims.md").read_text()
    assert table in (ROOT / "docs/reproduction.md").read_text()


def test_every_claim_is_a_row_of_the_page(decisions) -> None:
    page = (RESULTS / "report.html").read_text()
    claims = page[page.index('id="claims"') : page.index("</section>")]
    assert re.findall(r"<tr><td><code>([a-z-]+)</code>", claims) == [decision.claim.id for decision in decisions]


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
