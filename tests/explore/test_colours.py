"""Colours of the page: told from its ground, and from each other by the colour-blind, in light and dark."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from bokeh.palettes import Viridis256

from fedsarsa.explore import page
from fedsarsa.explore.control_pictures import ValuePicture
from fedsarsa.explore.controls import FLEET
from fedsarsa.explore.form import widget
from fedsarsa.explore.leaderboard_view import COLOURS

# What the page's filter does in the dark: invert(0.9), then hue-rotate(180deg) of the CSS filter effects.
TURNED = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])
# Machado, Oliveira and Fernandes, 2009, severity 1; on linear RGB.
SEEN = {
    "by all": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
USED = {  # colours that are told apart in one picture
    "floor": (page.RED, page.SKY),
    "gains, returns, points": (page.BLUE, page.ORANGE, page.GREEN, page.GREY),
    "leaderboard": tuple(COLOURS.values()),
}


def light(colour):
    return np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255


def dark(colour):
    return np.clip(TURNED @ (0.9 - 0.8 * light(colour)), 0, 1)


def linear(rgb):
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(XYZ[1] @ linear(rgb)) for rgb in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(rgb):
    x, y, z = np.cbrt(XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("shown", [light, dark])
def test_every_colour_is_told_from_the_ground(shown):
    shades = Viridis256[: page.SHADES]
    for colour in {*itertools.chain(*USED.values()), *shades}:
        assert contrast(shown(colour), shown("#ffffff")) >= 3, colour


def test_what_stays_as_it_is_in_the_dark_is_told_from_both_grounds():
    for ground in page.GROUNDS:
        assert contrast(light(page.NEUTRAL), light(ground)) >= 3
    drawn = ValuePicture().figure
    assert (drawn.background_fill_color, drawn.border_fill_color) == (None, None)
    assert drawn.title.text_color == drawn.below[0].major_label_text_color == page.NEUTRAL


@pytest.mark.filterwarnings("ignore:.*will be removed in version 2.0:PendingDeprecationWarning")
def test_handles_are_told_from_the_ground():
    assert f"background: {page.BLUE}" in page.SLIDER
    control = next(one for one in FLEET if one.range)
    for one in (control, replace(control, range=None, options=(1, 2), default=1)):
        assert page.SLIDER in widget(one, one.default).stylesheets


@pytest.mark.parametrize("who", SEEN)
@pytest.mark.parametrize("shown", [light, dark])
def test_colours_of_a_picture_are_told_apart(shown, who):
    assert contrast(light("#000000"), light("#ffffff")) == pytest.approx(21)
    for colours in USED.values():
        for one, other in itertools.combinations(colours, 2):
            seen = [lab(SEEN[who] @ linear(shown(colour))) for colour in (one, other)]
            assert np.linalg.norm(seen[0] - seen[1]) > 25, (one, other)
