import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.learning import step_sizes

T = np.arange(6)


def test_schedules_by_hand():
    np.testing.assert_array_equal(fs.ConstantStep(0.1).at(T), [0.1] * 6)
    np.testing.assert_allclose(fs.LinearDecay(w=2.0, a=3.0).at(T), 4 / (2 * (4 + T)))
    np.testing.assert_array_equal(
        fs.PiecewiseDecay([0.3, 0.2, 0.1], [2, 5]).at(T), [0.3, 0.3, 0.2, 0.2, 0.2, 0.1]
    )


def test_only_one_common_decay_has_an_average():
    decay = fs.LinearDecay(1.0, 2.0)
    assert step_sizes.average_offset(decay) == 2.0
    assert step_sizes.average_offset([decay, fs.LinearDecay(5.0, 2.0)]) == 2.0
    assert step_sizes.average_offset([decay, fs.LinearDecay(1.0, 3.0)]) is None
    assert step_sizes.average_offset([decay, 0.1]) is None
    assert step_sizes.average_offset(0.1) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.ConstantStep(0), "step_size must be a positive number, got 0"),
        (lambda: fs.FedSARSA(step_size=np.nan), "step_size must be a positive number, got nan"),
        (lambda: fs.FedSARSA(step_size=[0.1, -0.1]), "step_size must be a positive number, got -0.1"),
        (lambda: fs.FedSARSA(step_size="fast"), "step_size must be a positive number, got 'fast'"),
        (lambda: fs.FedSARSA(step_size=True), "step_size must be a positive number, got True"),
        (lambda: fs.FedSARSA(step_size=[]), r"step_size must be one or one per agent, got \[\]"),
        (lambda: fs.LinearDecay(0, 1), "w must be a positive number, got 0"),
        (lambda: fs.LinearDecay(1, -1), "a must be a positive number, got -1"),
        (
            lambda: fs.PiecewiseDecay([0.1, 0.2], []),
            "boundaries must be one fewer than values, got 0 .* for 2",
        ),
        (lambda: fs.PiecewiseDecay([0.1, 0.2, 0.3], [5, 5]), r"boundaries must increase, got \[5, 5\]"),
    ],
)
def test_bad_step_sizes(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
