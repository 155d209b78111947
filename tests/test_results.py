"""Test that the files in results/ agree with the runs there and with the docs."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from alphamepol import load_policy, make
from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.policies.files import released_policy_files
from alphamepol.policies.shape import check_policy_shape
from alphamepol.reproduction.catalogue import catalogue_of_experiments
from alphamepol.reproduction.claims import decide_claim
from alphamepol.reproduction.report.claim_lists import report_claims_as_markdown
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Store

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def script(path: Path) -> ModuleType:
    """Import a file that belongs to no package."""
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = script(ROOT / "docs/write_tables.py")


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


def test_the_list_of_claims_is_that_of_the_runs(decisions) -> None:
    assert report_claims_as_markdown(decisions) == (RESULTS / "claims.md").read_text()


@pytest.mark.parametrize("page", tables.pages_with_tables(), ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_those_of_the_results(page: Path) -> None:
    """`python docs/write_tables.py` writes them."""
    assert page.read_text() == tables.page_with_fresh_tables(page.read_text())


def test_an_old_table_is_replaced_and_the_rest_of_a_page_is_kept() -> None:
    old = "before\n\n<!-- table: slope-returns -->\n\n| old |\n|---|\n\n<!-- end -->\n\nafter\n"
    fresh = tables.page_with_fresh_tables(old)
    assert fresh.startswith("before\n\n<!-- table: slope-returns -->\n\n| | αMEPOL (α = 0.2) |")
    assert fresh.endswith(" |\n\n<!-- end -->\n\nafter\n")
    assert tables.page_with_fresh_tables(fresh) == fresh
    used = [block["name"] for page in tables.pages_with_tables() for block in tables.BLOCK.finditer(page.read_text())]
    assert sorted(used) == sorted(tables.TABLES)


def test_every_table_with_intervals_is_written_from_the_results() -> None:
    """A row with an interval outside of a marked table would not follow the results."""
    made_by_check = "policy in `gridworld-slope`"
    for page in (ROOT / "README.md", RESULTS / "README.md", *(ROOT / "docs").glob("*.md")):
        rest = tables.BLOCK.sub("", page.read_text())
        for table in re.findall(r"(?:^\|.*\n)+", rest, re.MULTILINE):
            assert made_by_check in table or not re.search(r"\d \[−?[\d.]+, −?[\d.]+\]", table), (page, table)


def means(*found: tuple[str, str | None]) -> list[str]:
    """Return the mean entropies of runs, each in a member, or under p_M."""
    return [tables.number(tables.over_seeds(*one).value) for one in found]


def returns(member: str, *runs: str) -> list[str]:
    """Return the mean returns at the last iteration of fine-tuning from several starts."""
    return [tables.number(tables.returns_of_tasks(f"runs/finetune-{member}-{run}", 0).value) for run in runs]


def difference(*names: str) -> str:
    return tables.cell(tables.claimed_difference("minigrid-finetune", *names))


def sentences(page: str) -> list[str]:
    """Return sentences of a page whose numbers come from results/."""
    if page == "README.md":
        verdicts = [claim["verdict"] for claim in json.loads((RESULTS / "claims.json").read_text())]
        holds, fails, undecided = (verdicts.count(one) for one in ("holds", "fails", "undecided"))
        failing = f"{fails} fail{'s' * (fails == 1)}"
        return [f"Of the paper's {len(verdicts)} claims, {holds} hold, {failing} and {undecided} are undecided"]
    if page == "docs/results.md":
        mepol, ours = "runs/multigrid-alpha-1-adcb75e3", "runs/multigrid-alpha-0.1"
        maps = means((mepol, "MG0"), (ours, "MG0"), (mepol, None), (ours, None))
        maps += returns("MG0", "multigrid-alpha-1-*", "multigrid-alpha-0.1")
        runs = ("runs/ant/alpha-0.2", "runs/ant/alpha-1", "runs/ant-stairs-random-*")
        ant = means(*((run, member) for run in runs for member in ("Down", "Up")))
        grid = returns("AdvG", "minigrid-alpha-0.2", "minigrid-alpha-1", "random")
        reads = json.loads((RESULTS / "uniform-entropies.json").read_text())["gridworld-slope"]["GWN"]
        return [
            "MG0 goes from {} (MEPOL) to {} (αMEPOL), the mean entropy from {} to {}, and the return on goals in MG0 "
            "from {} to {}.".format(*maps),
            "an entropy of {} in Down and {} in Up. MEPOL has {} and {}, untrained policies (ten seeds) {} and "
            "{}.".format(*ant),
            "reaches a return of {}, MEPOL {} and an untrained policy {}.".format(*grid),
            f"The estimator reads {tables.number(reads)} on uniform samples",
        ]
    if page == "docs/memory.md":
        alone = means(*((f"runs/gridworld-slope-only-{member}", member) for member in ("GWS", "GWN")))
        return ["A specialist without memory has {} in GWS and {} in GWN".format(*alone)]
    alone = [tables.over_seeds(f"runs/minigrid-only-{member}", member).value for member in ("EasyG", "AdvG")]
    above = [
        difference(f"{method} in {member}", f"Random in {member}")
        for member in ("EasyG", "AdvG")
        for method in ("αMEPOL (0.2)", "MEPOL")
    ]
    return [
        "an entropy of {} in EasyG and {} in AdvG".format(*(tables.number(one, 1) for one in alone)),
        f"+{difference('αMEPOL (0.2) in AdvG', 'MEPOL in AdvG')} in AdvG",
        "In EasyG αMEPOL is above by {} and MEPOL by {}. In AdvG it is {} and {}.".format(*above),
    ]


@pytest.mark.parametrize("page", ["README.md", "docs/results.md", "docs/memory.md", "docs/minigrid.md"])
def test_sentences_have_the_numbers_of_the_results(page: str) -> None:
    text = " ".join((ROOT / page).read_text().split())
    for sentence in sentences(page):
        assert sentence in text


def test_every_claim_is_a_row_of_the_page(decisions) -> None:
    page = (RESULTS / "report.html").read_text()
    claims = page[page.index('<section id="claims"') : page.index('<section id="figures"')]
    named = re.findall(r"The name of this claim is <code>([a-z-]+)</code>", claims)
    assert named == [decision.claim.id for decision in decisions]
    assert len(page.encode()) < 6e6


def test_the_page_has_the_table_of_domains() -> None:
    page = (RESULTS / "report.html").read_text()
    rows = tables.rows_of_domains()
    assert {"gridworld-slope", "multigrid", "ant-stairs", "minigrid"} <= {row.domain for row in rows}
    for row in rows:
        cells = '</td><td class="number">'.join(
            "{}<small>{}</small>".format(*tables.words_of_domain_number(row, one)) for one in row.cells
        )
        assert f'{row.member}<small>{row.domain}</small></td><td class="number">{cells}</td>' in page


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
