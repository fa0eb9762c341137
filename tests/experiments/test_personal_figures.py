"""Pictures of personal weights hold what they were given, in the order asked for."""

import numpy as np
import pytest

from fedsarsa.experiments.personal_figures import agent_order, errors_figure, weights_figure


def test_neighbours_are_side_by_side():
    points = np.array([[0.0], [10.0], [0.1], [10.1], [0.2]])
    order = agent_order(points).tolist()
    assert sorted(order) == [0, 1, 2, 3, 4]
    near = [order.index(agent) for agent in (0, 2, 4)]
    assert max(near) - min(near) == 2
    assert agent_order([[1.0, 2.0]]).tolist() == [0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_matrix_is_drawn_in_order(sign, tmp_path):
    weights, order = sign * np.arange(9.0).reshape(3, 3), [2, 0, 1]
    figure = weights_figure(weights, order)
    axes, _ = figure.axes
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), weights[np.ix_(order, order)])
    assert image.get_clim() == ((0.0, 8.0) if sign > 0 else (-8.0, 8.0))
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["2", "0", "1"]
    figure.savefig(tmp_path / "weights.png")


def test_errors_are_drawn_in_order(tmp_path):
    errors = {"alone": [1.0, 2.0, 3.0], "personal": [0.5, 0.6, 0.7]}
    figure = errors_figure(errors, [2, 0, 1])
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["alone", "personal"]
    np.testing.assert_array_equal(lines[0].get_ydata(), [3.0, 1.0, 2.0])
    assert figure.axes[0].get_yscale() == "log"
    figure.savefig(tmp_path / "errors.png")


def test_many_agents_have_no_numbers():
    assert list(weights_figure(np.eye(50)).axes[0].get_xticks()) == []


def test_an_order_that_is_none():
    with pytest.raises(ValueError, match=r"order must hold every agent from 0 to 1 once, got \[0, 0\]"):
        weights_figure(np.eye(2), [0, 0])
