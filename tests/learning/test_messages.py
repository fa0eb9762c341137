"""Errors of features say what to change."""

import re

import pytest

import fedsarsa as fs
from fedsarsa.experiments import config
from fedsarsa.learning.continuous_features import box_map

CARTS = fs.control.fleet("CartPole", 2)


def test_feature_maps_of_every_kind_of_fleet():
    algo = fs.FedSARSA(fs.TileCoding(2, 3), fs.EpsilonGreedy(0.1))
    assert algo.feature_map(CARTS).dim == 2 * 4**4 * 2
    assert algo.feature_map(fs.GymFleet([fs.GymWorld("MountainCar-v0")])).dim == 2 * 4**2 * 3
    with pytest.raises(ValueError, match="features must be OneHot, ModuloFeatures or TabularFeatures"):
        algo.feature_map(fs.paper.fleet(2, states=4, actions=2))
    with pytest.raises(ValueError, match="features must be TileCoding, FourierBasis, RBF"):
        fs.FedSARSA().feature_map(fs.GymFleet([fs.GymWorld("MountainCar-v0")]))


def test_too_many_tiles_can_be_hashed():
    with pytest.raises(ValueError, match="hash them into fewer, as memory=100_000 does"):
        fs.FedSARSA(fs.TileCoding(8, 100)).feature_map(CARTS)
    with pytest.raises(ValueError, match=r"ask for less of each$"):
        fs.FedSARSA(fs.RBF(90)).feature_map(CARTS)


@pytest.mark.parametrize(
    "features", [fs.TileCoding(8, 8, (0, 255)), fs.FourierBasis(3, (0, 255)), fs.RBF(5, 0.5, (0, 255))]
)
def test_images_need_features_whose_size_is_chosen(features):
    low, high = [0.0] * 147, [255.0] * 147
    with pytest.raises(
        ValueError, match=r"ask for less of each, or take RandomFourier, of the size that you"
    ):
        box_map(features, low, high, actions=3, joint=False)


def test_bounds_are_asked_for_in_python_and_toml():
    fleet = fs.GymFleet([fs.GymWorld("CartPole-v1")])
    message = "observations [1, 3] have no bounds in this world; give TileCoding(bounds=(low, high))"
    with pytest.raises(ValueError, match=f"{re.escape(message)}.*in TOML, bounds = "):
        fs.FedSARSA(fs.TileCoding(2, 3)).feature_map(fleet)


@pytest.mark.parametrize("bounds", [[[-1.0, -2.0], [1.0, 2.0]], {"low": [-1.0, -2.0], "high": [1.0, 2.0]}])
def test_bounds_in_toml_are_a_pair_or_a_table(bounds):
    content = {"algorithm": {"features": {"kind": "tile-coding", "bounds": bounds}}}
    features = config.validate(content, "x").algorithm.build().features
    assert features.bounds == ((-1.0, -2.0), (1.0, 2.0))
