"""Run the Python examples of the README and of the docs unchanged, except that the longest use fewer samples."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from alphamepol import PretrainConfig
from alphamepol.environments.registry import registered_name

ROOT = Path(__file__).parents[1]


def examples_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


README = examples_of("README.md")
PAGES = {
    "environments": 2,
    "finetuning": 3,
    "life-of-a-run": 1,
    "memory": 2,
    "metatraining": 1,
    "minigrid": 1,
    "mujoco": 1,
    "tour": 2,
    "videos": 1,
}
"""The number of examples on each page. tests/evaluation/test_export.py runs those of policy-files.md."""
FEWER_SAMPLES = {
    "TrpoConfig(": "TrpoConfig(steps=1200, ",
    "model.learn(5 * 2000)": "model.learn(2000)",  # test_sb3.py runs all five iterations and checks their results
}


def test_there_are_examples_to_run() -> None:
    assert len(README) == 2
    for page, number in PAGES.items():
        assert len(examples_of(f"docs/{page}.md")) == number
    assert all(words in (ROOT / "docs/finetuning.md").read_text() for words in FEWER_SAMPLES)


@pytest.fixture
def small_presets(tiny, monkeypatch) -> None:
    """Replace every preset by settings that take seconds. For a user's own class, they also scale observations."""

    def small(_, environment_class) -> PretrainConfig:
        ours = registered_name(environment_class) != "pendulums"
        return tiny if ours else dataclasses.replace(tiny, initial_mean="none", normalise=True)

    for place in ("alphamepol.preset", "alphamepol.algorithms.alphamepol.run.preset"):
        monkeypatch.setattr(place, small)


@pytest.mark.parametrize("number", range(len(README)))
def test_example_of_the_readme(number: int, small_presets, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(README[number], "README.md", "exec"), {})
    for name in re.findall(r'folder="(.*)"', README[number]):
        assert (tmp_path / name / "summary.json").exists()


@pytest.mark.parametrize(("page", "number"), [(page, i) for page, count in PAGES.items() for i in range(count)])
def test_example_of_the_docs(page: str, number: int, small_presets, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    example, names = examples_of(f"docs/{page}.md")[number], {}
    for words, fewer in FEWER_SAMPLES.items():
        example = example.replace(words, fewer)
    exec(compile(example, page, "exec"), names)
    if "policy" in names:
        assert names["policy"].mean(np.array([0.3, -0.4])).shape == (2,)
