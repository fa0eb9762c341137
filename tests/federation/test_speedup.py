"""The linear speed-up of Corollary ``cor:err-con``: without heterogeneity the error floor falls as 1/N."""

import itertools

import pytest
from scipy import stats

import fedsarsa as fs

# Three two-sided comparisons at this level together fail by chance once in a thousand times.
LEVEL = 0.001 / 3


@pytest.mark.slow
def test_floor_times_agents_is_constant():
    algo = fs.FedSARSA(step_size=0.02)
    scaled = {}
    for agents in (1, 5, 20):
        fleet = fs.paper.fleet(agents, eps_p=0, eps_r=0)
        target = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
        history = algo.train(fleet, 40_000, runs=40, seed=agents)
        floor = history.mse(target).sel(t=slice(10_000, None)).mean("t")
        scaled[agents] = agents * floor.values
    for one, two in itertools.combinations(scaled.values(), 2):
        assert stats.ttest_ind(one, two, equal_var=False).pvalue > LEVEL
    # And the test could tell: without the factor N the floors differ beyond any doubt.
    assert stats.ttest_ind(scaled[1], scaled[5] / 5, equal_var=False).pvalue < 1e-12
