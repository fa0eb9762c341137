import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsarsa.worlds import alias


def probabilities_of(table):
    """The distribution that a row of packed entries draws from, read off the entries."""
    columns = len(table)
    own = (table >> np.uint64(24)).astype(float) / 2**40
    other = (table & np.uint64(2**24 - 1)).astype(int)
    result = own / columns
    np.add.at(result, other, (1 - own) / columns)
    return result


@given(
    st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=40).filter(lambda x: sum(x) > 0.01)
)
def test_tables_hold_the_distribution(weights):
    row = np.array(weights) / np.sum(weights)
    drawn = probabilities_of(alias.build(row[None])[0])
    np.testing.assert_allclose(drawn, row, atol=2**-39)
    assert (drawn[row == 0] == 0).all()


def test_a_certain_column_is_always_drawn():
    row = np.zeros((1, 7))
    row[0, 3] = 1.0
    drawn = probabilities_of(alias.build(row)[0])
    assert (np.delete(drawn, 3) == 0).all()
    assert drawn[3] == pytest.approx(1.0)
