"""Features of continuous observations: norms, bounds, values against plain definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsarsa as fs
from fedsarsa.learning import local_step, step_arrays
from fedsarsa.learning.bases import CONTINUOUS
from fedsarsa.learning.continuous_features import box_map
from fedsarsa.learning.targets import Step
from tests.worlds_of_tests import dense, every_kind

LOW, HIGH = (-1.2, -0.07, 2.0), (0.6, 0.07, 5.0)
FEATURES = every_kind(
    CONTINUOUS,
    fs.TileCoding(),
    fs.TileCoding(1, 1),
    fs.TileCoding(5, (2, 3, 4)),
    fs.TileCoding(8, 6, memory=512),
    fs.FourierBasis(2),
    fs.FourierBasis((0, 1, 3)),
    fs.RBF(),
    fs.RBF((1, 2, 3), width=0.3),
    fs.RandomFourier(30, width=0.1, seed=4),
)
observations = st.lists(st.floats(-10, 10), min_size=3, max_size=3)


@pytest.mark.parametrize("features", FEATURES, ids=repr)
@given(x=observations)
def test_norms_are_at_most_one_and_compiled_features_are_the_same(features, x):
    phi = box_map(features, LOW, HIGH, actions=2, joint=False)
    inputs = np.array(x)
    unit, outside = phi.scaled(inputs)
    index, value = phi.basis.active(unit)
    assert np.linalg.norm(dense(phi, inputs, 1)) <= 1 + 1e-12
    assert len(set(index.tolist())) == len(index)
    assert 0 <= index.min() <= index.max() < phi.basis.size
    assert outside == any(not low <= v <= high for low, v, high in zip(LOW, x, HIGH, strict=True))
    model = step_arrays.model(phi, fs.Greedy(), np.arange(2.0), np.arange(2), (0.0, 1.0), 0.9, Step(), 1)
    workspace = step_arrays.step_workspace(model)
    assert (
        local_step.encode(model, inputs, workspace.unit, workspace.places[0], workspace.value[0]) == outside
    )
    np.testing.assert_array_equal(workspace.places[0], index)
    np.testing.assert_allclose(workspace.value[0], value, rtol=1e-14)


@pytest.mark.parametrize("features", FEATURES, ids=repr)
def test_a_constant_is_a_constant_everywhere(features):
    phi = box_map(features, LOW, HIGH, actions=3, joint=False)
    theta = phi.constant(-7.5)
    rng = np.random.default_rng(0)
    for _ in range(50):
        inputs = rng.uniform(LOW, HIGH)
        assert dense(phi, inputs, int(rng.integers(3))) @ theta == pytest.approx(-7.5)


@pytest.mark.parametrize("features", FEATURES, ids=repr)
def test_actions_have_parameters_of_their_own(features):
    phi = box_map(features, LOW, HIGH, actions=3, joint=False)
    x = np.array([0.0, 0.0, 3.0])
    vectors = [dense(phi, x, a) for a in range(3)]
    assert phi.dim == 3 * phi.basis.size
    for a in range(3):
        for b in range(a):
            assert vectors[a] @ vectors[b] == 0.0


def test_tiles_are_displaced_grids():
    tiles = fs.TileCoding(tilings=4, bins=2).on_box(2)
    assert tiles.size == 4 * 3 * 3
    assert tiles.strides[:, 0].tolist() == [3, 1]
    # Grid k is displaced by k (1, 3) / 4 tiles, modulo a tile.
    np.testing.assert_array_equal(tiles.offsets, [[0, 0], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])
    index, value = tiles.active(np.array([0.4, 0.9]))  # 0.8 and 1.8 tiles
    cells = [(0, 1), (1, 2), (1, 2), (1, 2)]
    assert index.tolist() == [9 * k + 3 * a + b for k, (a, b) in enumerate(cells)]
    assert value.tolist() == [0.5] * 4
    np.testing.assert_array_equal(tiles.active(np.ones(2))[0], [9 * k + 8 for k in range(4)])


def test_near_observations_share_tiles_and_far_ones_do_not():
    tiles = fs.TileCoding(8, 8).on_box(2)
    near, far = tiles.active(np.array([0.50, 0.50]))[0], tiles.active(np.array([0.95, 0.05]))[0]
    here = tiles.active(np.array([0.51, 0.50]))[0]
    assert len(set(near) & set(here)) >= 6
    assert not set(near) & set(far)


def test_hashing_reports_collisions():
    tiles = fs.TileCoding(8, 9, memory=8 * 50).on_box(2)
    assert tiles.size == 400
    report = tiles.collisions()
    assert (report["tiles"], report["slots"]) == (100, 50)
    centres = (np.indices((10, 10)).reshape(2, -1).T + 0.5) / 9  # of the first grid's tiles
    slots = [int(tiles.active(centre)[0][0]) for centre in centres]
    shared = sum(slots.count(slot) > 1 for slot in slots)
    assert report["sharing"] == pytest.approx(shared / 100)
    assert fs.TileCoding(8, 9).on_box(2).collisions()["sharing"] == 0.0
    roomy = fs.TileCoding(8, 9, memory=8 * 20_000).on_box(2).collisions()
    assert roomy["sharing"] < 0.1


def test_hashing_many_observations():
    """40 observations have 9**40 tiles: the numbers of tiles do not fit into 64 bits, every one counts."""
    tiles = fs.TileCoding(8, 8, memory=8 * 10**6).on_box(40)
    report = tiles.collisions()
    assert report == {"tiles": 9**40, "slots": 10**6, "sharing": 1.0}
    unit = np.random.default_rng(0).random((2000, 40))
    places = np.array([tiles.active(one)[0] for one in unit])
    assert ((places // 10**6) == np.arange(8)).all()
    # 2000 tiles in a million slots: 2 collisions are expected in a grid, 16 in all; 40 come once in 10**6.
    assert sum(2000 - len(np.unique(column)) for column in places.T) < 40
    # Evenly: with 50 observations expected in each of 40 parts, chi-square's 99.9999 % point is 99.
    counts = np.bincount(places[:, 0] // 25_000, minlength=40)
    assert ((counts - 50.0) ** 2 / 50).sum() < 99
    for i in range(40):  # one observation changed: another tile
        moved = unit[0].copy()
        moved[i] = (moved[i] + 0.5) % 1.0
        assert not (tiles.active(moved)[0] == places[0]).any()


def test_collisions_of_more_tiles_than_a_float_can_count():
    report = fs.TileCoding(8, 8, memory=4096).on_box(330).collisions()
    assert report["tiles"] == 9**330
    assert (report["slots"], report["sharing"]) == (512, 1.0)


def test_places_that_collide_in_one_grid_do_not_in_the_others():
    tiles = fs.TileCoding(8, 9, memory=8 * 2000).on_box(3)
    places = np.array([tiles.active(one)[0] for one in np.random.default_rng(1).random((1000, 3))])
    same = (places[:, None] == places[None]).sum(axis=2)[np.triu_indices(1000, 1)]
    plain = fs.TileCoding(8, 9).on_box(3)
    near = np.array([plain.active(one)[0] for one in np.random.default_rng(1).random((1000, 3))])
    apart = (near[:, None] == near[None]).sum(axis=2)[np.triu_indices(1000, 1)] == 0
    # Nearly half a million pairs share no tile. A pair collides in a grid with probability 1 / 2000: five are
    # expected to collide in two grids, none in more. With one hash for all grids, 57 do.
    assert apart.sum() > 400_000
    assert 0 < (same[apart] > 0).mean() < 2 * 8 / 2000
    assert (same[apart] > 2).sum() <= 1


def test_fourier_and_bells_are_their_formulas():
    x = np.array([0.3, 0.8])
    cosines = fs.FourierBasis(1).on_box(2)
    expected = [math.cos(math.pi * (a * x[0] + b * x[1])) / 2 for a in (0, 1) for b in (0, 1)]
    np.testing.assert_allclose(cosines.active(x)[1], expected, rtol=1e-14)
    bells = fs.RBF(3, width=0.5).on_box(2)
    centres = [(a, b) for a in (0, 0.5, 1) for b in (0, 0.5, 1)]
    raw = np.array([math.exp(-((x[0] - a) ** 2 + (x[1] - b) ** 2) / (2 * 0.25**2)) for a, b in centres])
    np.testing.assert_allclose(bells.active(x)[1], raw / raw.sum(), rtol=1e-12)


def test_grids_hold_every_combination_on_any_number_of_inputs():
    frequencies = fs.FourierBasis((1, 0, 2)).on_box(3).points
    assert frequencies.tolist() == [[a, 0, c] for a in (0, 1) for c in (0, 1, 2)]
    assert fs.RBF(1).on_box(100).points.tolist() == [[0.5] * 100]


def test_what_is_not_a_number_is_clipped_and_counted():
    phi = box_map(fs.TileCoding(), LOW, HIGH, actions=2, joint=False)
    model = step_arrays.model(phi, fs.Greedy(), np.arange(2.0), np.arange(2), (0.0, 1.0), 0.9, Step(), 1)
    workspace = step_arrays.step_workspace(model)
    assert local_step.encode(
        model, np.array([math.nan, 0.0, math.inf]), workspace.unit, workspace.places[0], workspace.value[0]
    )
    assert 0 <= workspace.places.min() <= workspace.places.max() < phi.basis.size


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.TileCoding(0), "tilings must be an integer of at least 1, got 0"),
        (lambda: fs.TileCoding(8, 0), "bins must be an integer of at least 1, got 0"),
        (lambda: fs.TileCoding(bounds=((0, 1), (1, 1))), "low below high"),
        (lambda: fs.TileCoding(8, memory=4), "memory must be an integer of at least 8, got 4"),
        (lambda: fs.RBF(width=0.01), "width must be at least 0.1, got 0.01"),
        (lambda: fs.FourierBasis(-1), "order must be an integer of at least 0, got -1"),
        (lambda: fs.RandomActions(10**6), "count must be at most"),
        (lambda: box_map(fs.TileCoding(bins=(2, 3)), LOW, HIGH, 2, False), "bins must be one number or 3"),
        (lambda: box_map(fs.TileCoding(bounds=((0,), (1,))), LOW, HIGH, 2, False), "bounds must be for 3"),
        (
            lambda: box_map(fs.TileCoding(8, 1000), LOW, HIGH, 2, False),
            "parameters for 3 inputs and 2",
        ),
        (
            lambda: box_map(fs.FourierBasis(9), (0.0,) * 8, (1.0,) * 8, 2, False),
            "has 100000000 functions",
        ),
        (
            lambda: box_map(fs.RBF(10), (0.0,) * 8, (1.0,) * 8, 2, False),
            "functions of 8 inputs",
        ),
        (lambda: fs.TileCoding(bounds=5), "bounds must be a pair (low, high), got 5"),
        (lambda: fs.RBF(bounds="ab"), "bounds must be a pair (low, high), got 'ab'"),
        (lambda: box_map(fs.RBF(), (0.0,), (math.inf,), 2, False), r"observations [0] have no bounds"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.5), (-1.7e308, 1.7e308), (1.0, 0.0)])
def test_observations_need_a_width(low, high):
    with pytest.raises(ValueError, match=r"observations \[1\] must have low below high and a finite width"):
        box_map(fs.TileCoding(2, 2), (0.0, low), (1.0, high), 2, False)


def test_random_fourier_features_are_about_half_a_gaussian_kernel():
    """With n functions the error of phi(x)'phi(y) is about 1 / sqrt(2 n), 0.005 here: six are allowed."""
    width, inputs = 0.2, 3
    basis = fs.RandomFourier(20_000, width, seed=1).on_box(inputs)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, y = rng.uniform(size=(2, inputs))
        deviation = width * np.sqrt(inputs)
        kernel = np.exp(-np.sum((x - y) ** 2) / (2 * deviation**2))
        assert basis.active(x)[1] @ basis.active(y)[1] == pytest.approx(kernel / 2, abs=0.03)


def test_random_fourier_features_are_those_of_their_seed():
    one, same, other = (fs.RandomFourier(10, seed=seed).on_box(147) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.points, same.points)
    assert not np.array_equal(one.points, other.points)


def test_one_pair_of_bounds_is_for_all_observations():
    phi = box_map(fs.RandomFourier(5, bounds=(0.0, 10.0)), (-np.inf,) * 3, (np.inf,) * 3, 2, joint=False)
    assert phi.low.tolist() == [0.0] * 3
    assert phi.high.tolist() == [10.0] * 3


@pytest.mark.parametrize("options", [{"count": 0}, {"width": 0.0}, {"width": -1}, {"seed": -1}], ids=str)
def test_random_fourier_arguments_out_of_range(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        fs.RandomFourier(**options)
