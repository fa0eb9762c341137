"""How a round's seconds are shared out."""

import pytest

from fedsarsa.deploy.deadline import Deadline


@pytest.mark.parametrize("seconds", [0.02, 1.0, 20.0, 60.0, 900.0])
def test_everybody_is_done_before_whoever_waits_for_them(seconds):
    deadline = Deadline(seconds)
    assert 0 < deadline.agent < deadline.bridge < deadline.seconds < deadline.message < deadline.seconds + 6
    assert deadline.bridge + deadline.upload == pytest.approx(deadline.seconds)
    assert 0 < deadline.request <= deadline.bridge
    assert deadline.round == 10 * seconds


def test_late_agents_have_a_second_to_say_so_or_a_fifth_of_their_time():
    assert Deadline(100.0).bridge - Deadline(100.0).agent == pytest.approx(1.0)
    assert Deadline(1.0).agent == pytest.approx(0.8 * 0.7)


def test_pauses_double_up_to_a_limit():
    assert [Deadline(60.0).pause(count) for count in (1, 2, 3, 6, 7, 5000)] == [1, 2, 4, 30, 30, 30]
    assert Deadline(3.0).pause(4) == 3.0
