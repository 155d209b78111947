"""Test figures inside a page: their colours are variables, and their parts tell values."""

import json
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from alphamepol.estimation.statistics import Estimate
from alphamepol.figures.bars import draw_bars
from alphamepol.figures.curves import draw_adaptation_curves
from alphamepol.figures.style import COLOURS, STYLE, page_colours_as_css, svg_for_page, tell_values

pytestmark = pytest.mark.quick

NASTY = '"><script>alert(1)</script>&'


def made(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(svg_for_page(figure, NASTY))


def test_colours_are_variables_that_both_modes_define() -> None:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2, 2))
        figure.add_subplot().plot([0, 1], color=COLOURS[1])
        text = svg_for_page(figure, "a line")
    assert f"stroke: var(--c1, {COLOURS[1]})" in text
    assert "var(--ink, #000000)" in text  # axes
    for mode in ("light", "dark"):
        assert "--c1: " in page_colours_as_css(mode)
    assert page_colours_as_css("light") != page_colours_as_css("dark")
    assert "<style" not in text  # it would hold for the whole page
    assert 'id="figure_1"' not in text


def test_names_are_data_in_the_drawing() -> None:
    figure = Figure(figsize=(2, 2))
    axes = figure.add_subplot(title=NASTY.replace("$", ""))
    (line,) = axes.plot([0, 1])
    tell_values(line, NASTY, [NASTY, "2"])
    root = made(figure)
    assert root.attrib["aria-label"] == NASTY
    assert not list(root.iter("script"))
    (part,) = root.iterfind(".//*[@data-series]")
    assert part.attrib["data-series"] == NASTY
    assert json.loads(part.attrib["data-values"]) == [NASTY, "2"]
    assert "<script" not in svg_for_page(figure, NASTY)


def test_bars_tell_their_numbers(tmp_path) -> None:
    groups = {"east": {"a": Estimate(1.0, (0.5, 1.5)), "b": Estimate(-2.0, None)}}
    root = made(draw_bars(groups, tmp_path, "bars", label="height", levels={"east": 2.0}))
    told = {part.attrib.get("data-values") for part in root.iterfind(".//*[@data-series]")}
    assert {"east, a: 1.00 [0.50, 1.50]", "east, b: −2.00"} <= told
    assert (tmp_path / "bars.csv").read_text().splitlines()[1] == "east,a,1,0.5,1.5"


def test_a_curve_tells_its_values_at_equal_distances() -> None:
    before = np.tile(np.arange(300.0), (3, 1))
    root = made(draw_adaptation_curves(before, before + 1, None))
    lines = [json.loads(part.attrib["data-values"]) for part in root.iterfind(".//*[@data-values]")]
    assert len(lines) == 2
    assert len(lines[0]) == 101
    assert lines[0][0].startswith("before the inner step, 1: 0.00")
    assert lines[1][-1].startswith("after the inner step, 300: 300")
