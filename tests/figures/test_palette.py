"""Test that the colours of figures can be told apart, also by colour-blind people, in light and in dark mode.

Colour blindness is simulated with the matrices of Machado, Oliveira and Fernandes (2009) at severity 1, on linear RGB.
Distances are Euclidean in CIELAB, where about 2.3 is a difference that can just be seen.
"""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from alphamepol.figures.style import (
    COLOURS,
    DARK_COLOURS,
    DASHES,
    GROUNDS,
    METHOD_COLOURS,
    WALLS,
    style_colours_of,
    style_dashes_of,
)

pytestmark = pytest.mark.quick

SIMULATIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
FROM_RGB = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.119192, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])
PALETTES = {"light": COLOURS, "dark": DARK_COLOURS}


def linear(colour: str) -> np.ndarray:
    values = np.array(to_rgb(colour))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(colour: str, seen_by: str = "normal") -> np.ndarray:
    """Return the lightness and the two colour coordinates of a colour, as somebody sees it."""
    seen = FROM_RGB @ np.clip(SIMULATIONS[seen_by] @ linear(colour), 0, 1) / WHITE
    x, y, z = np.where(seen > 216 / 24389, np.cbrt(seen), (24389 / 27 * seen + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of WCAG 2."""
    low, high = sorted(float(FROM_RGB[1] @ linear(one)) for one in (first, second))
    return (high + 0.05) / (low + 0.05)


def test_the_simulation_finds_colours_that_are_known_to_be_confused() -> None:
    red, green = "#a52a00", "#5a6f00"
    near, far = (np.linalg.norm(lab(red, who) - lab(green, who)) for who in ("deuteranopia", "normal"))
    assert far > 50
    assert near < 15
    assert lab("#ffffff") == pytest.approx([100, 0, 0], abs=0.01)
    assert contrast("#ffffff", "#000000") == pytest.approx(21)


@pytest.mark.parametrize("mode", PALETTES)
@pytest.mark.parametrize(
    ("who", "least"), [("normal", 17), ("protanopia", 16), ("deuteranopia", 16), ("tritanopia", 13)]
)
def test_any_two_colours_differ(mode: str, who: str, least: float) -> None:
    seen = [lab(one, who) for one in PALETTES[mode]]
    for (i, one), (j, other) in itertools.combinations(enumerate(seen), 2):
        assert np.linalg.norm(one - other) > least, (PALETTES[mode][i], PALETTES[mode][j])


@pytest.mark.parametrize("mode", PALETTES)
def test_methods_differ_in_lightness_too(mode: str) -> None:
    """A print in grey still tells them apart."""
    assert set(METHOD_COLOURS.values()) == set(COLOURS[:6])
    lightness = sorted(lab(one)[0] for one in PALETTES[mode][:6])
    assert min(np.diff(lightness)) > 5


@pytest.mark.parametrize("mode", PALETTES)
def test_colours_stand_out_from_the_page(mode: str) -> None:
    """WCAG 2 asks for a contrast of 3 for parts of graphics."""
    for colour in (*PALETTES[mode], WALLS[mode]):
        assert contrast(colour, GROUNDS[mode]) > 3, colour


def test_lines_differ_without_colours() -> None:
    labels = ["αMEPOL (0.2)", "MEPOL", "trained there alone", "MAML+R", "MAML+DIAYN"]
    dashes = [style_dashes_of(colour) for colour in style_colours_of(labels).values()]
    assert len(set(dashes)) == len(labels) == len(DASHES)
