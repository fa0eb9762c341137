"""What a method cannot take is refused in a sentence that gives the reason, and a method that can."""

import numpy as np
import pytest

import fedsarsa as fs

m = fs.methods
FLEET = fs.paper.fleet(3, eps_p=0.5, eps_r=0.5, states=4, actions=2)
DENSE = fs.TabularFeatures(np.full((4, 2, 3), 0.3))


def test_what_methods_themselves_refuse():
    for make, message in [
        (lambda: m.OneShotTD(policy=fs.Softmax()), "policy must be a FixedPolicy, whose values OneShotTD"),
        (lambda: m.SCAFFLSA(policy=fs.Greedy()), r"got Greedy.*FedSARSA learns with a policy that moves"),
        (lambda: m.FedTD(sync_every=0), "sync_every must be an integer of at least 1, got 0"),
        (lambda: m.FedTD(server_step=0.0), "server_step must be a positive number, got 0.0"),
        (lambda: m.NStepTD(n=0), "n must be an integer of at least 1, got 0"),
        (lambda: m.FedQ(step_size=1.0), r"step_size must be below 1 at every step, .* got 1; FedSARSA"),
        (lambda: m.FedQ(step_size=fs.LinearDecay(1.0, 1.0)), r"step_size must be below 1 .* got 2; FedSARSA"),
        (lambda: m.FedSynQ(step_size=1.5), r"step_size must be at most 1 .* got 1.5; FedSARSA"),
        (lambda: m.FedQ(averaging="all"), "averaging must be one of equal, importance, got 'all'"),
        (lambda: m.PFLSA(own=0.0), r"own must be in \(0, 1\], got 0.0; FedTD"),
        (lambda: m.ConsensusTD(graph="line"), "graph must be one of complete, ring, star, got 'line'"),
        (lambda: m.ConsensusTD(graph=[[1, 0], [0.5, 0.5]]), r"doubly stochastic.* FedTD averages with"),
        (lambda: m.ConsensusTD(graph=np.eye(3)), r"connected.*no way between agents 0 and 1; FedTD"),
        (lambda: m.ConsensusTD(graph=[[0, 1], [1, 0]]), r"weight of its own, got 0 for agent 0; FedTD"),
        (lambda: m.ConsensusTD(graph=[[1.0]] * 2), r"graph must have shape \(N, N\), got \(2, 1\)"),
        (lambda: m.state_features(np.eye(2)[None], 2), r"table must have shape \(S, d\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="behaviour must be a FixedPolicy, or one per agent, got None"):
        m.FedQ(None)
    with pytest.raises(TypeError, match="shared must be True or False, got 1"):
        m.ConsensusTD(shared=1)


@pytest.mark.parametrize("averaging", ["equal", "importance"])
def test_dense_features_have_no_entries_to_average_by(averaging):
    with pytest.raises(ValueError, match=r"one active parameter per pair.*FedSARSA takes any"):
        m.FedQ(averaging=averaging, features=DENSE).train(FLEET, steps=5)


class Doubling:
    """A schedule of a user's own, which is 1.6 at step 4 and tiny at first."""

    def at(self, t):
        return 0.1 * 2.0**t


GROWING = {
    "piecewise": fs.PiecewiseDecay([0.1, 1.5], [10]),
    "linear": fs.LinearSchedule(0.1, 2.0, 40),
    "exponential": fs.ExponentialSchedule(0.1, 2.0, 40),
    "own": Doubling(),
    "of one agent": [0.1, 0.2, fs.PiecewiseDecay([0.1, 0.2, 1.5, 0.1], [3, 10, 20])],
}


@pytest.mark.parametrize("step_size", GROWING.values(), ids=GROWING)
def test_step_sizes_that_grow_are_refused_where_values_would_be_wrong(step_size):
    for method, most in [
        (m.FedQ(step_size=step_size), "below 1 at every step"),
        (m.FedQ(step_size=step_size, averaging="importance"), "below 1"),
        (m.FedSynQ(step_size), "at most 1 at every step"),
        (fs.FedSARSA(fs.OneHot(), step_size=step_size, server=fs.servers.ImportanceMean()), "below 1 with"),
    ]:
        with pytest.raises(ValueError, match=f"step_size must be {most}"):
            method.train(FLEET, steps=50, runs=1)
        method.train(FLEET, steps=3, runs=1)  # which do not get so far


def test_importance_averaging_takes_what_it_can_weigh():
    algo = fs.FedSARSA(DENSE, step_size=0.1, server=fs.servers.ImportanceMean())
    with pytest.raises(ValueError, match=r"features must have one active parameter per pair .* got 3; Mean"):
        algo.train(FLEET, steps=5)
    algo = fs.FedSARSA(fs.OneHot(), step_size=1.0, server=fs.servers.ImportanceMean())
    with pytest.raises(ValueError, match=r"step_size must be below 1 with ImportanceMean.* got 1; Mean"):
        algo.train(FLEET, steps=5)


def test_pairs_that_nobody_tries_are_named():
    for behaviour in (fs.FixedPolicy(0), [fs.FixedPolicy(0)] * 3):
        with pytest.raises(
            ValueError, match=r"some agent try every action.*none at \[0, 1\].*FixedPolicy\(\).*FedSARSA"
        ):
            m.FedQ(behaviour).train(FLEET, steps=5)
    one_each = [fs.FixedPolicy(a) for a in (0, 1, 0)]
    m.FedQ(one_each).train(FLEET, steps=5, runs=1)
    m.FedQ(fs.FixedPolicy(0), features=fs.ModuloFeatures(4, 1)).train(FLEET, steps=5, runs=1)


def test_off_policy_td_needs_a_table_and_coverage():
    with pytest.raises(
        ValueError, match=r"features must group states.*NStepTD without a behaviour takes any"
    ):
        m.NStepTD(DENSE, behaviour=fs.FixedPolicy()).train(FLEET, steps=5)
    table = fs.ModuloFeatures(4, 1)
    with pytest.raises(ValueError, match=r"probability 0 at \[0, 1\] for agent 0; FedTD learns"):
        m.NStepTD(table, fs.FixedPolicy(), behaviour=fs.FixedPolicy(0)).train(FLEET, steps=5)
    with pytest.raises(ValueError, match=r"behaviour must be one or one per agent \(3\), got 2"):
        m.NStepTD(table, fs.FixedPolicy(), behaviour=[fs.FixedPolicy()] * 2).train(FLEET, steps=5)


def test_pairs_that_nobody_visits_have_no_target():
    with pytest.raises(ValueError, match="behaviour must let some agent visit every pair"):
        m.FedQ(fs.FixedPolicy(0)).target(FLEET)
    assert m.FedQ(features=fs.ModuloFeatures(2, 2)).target(FLEET) is None


def test_one_chain_needs_one_kernel():
    with pytest.raises(ValueError, match=r"shared must be False .*for agent 1; ConsensusTD\(shared=False\)"):
        m.ConsensusTD(shared=True).train(FLEET, steps=5)
    with pytest.raises(ValueError, match=r"graph must have shape \(3, 3\), got \(2, 2\)"):
        m.ConsensusTD(graph=np.full((2, 2), 0.5)).train(FLEET, steps=5)


def test_so_many_steps_of_all_pairs_have_no_random_numbers():
    with pytest.raises(ValueError, match=r"steps must be below .* with 8 pairs"):
        m.FedSynQ().train(FLEET, steps=10**14)


@pytest.mark.parametrize("kind", m.METHODS, ids=lambda kind: kind.name)
def test_worlds_that_are_not_finite_are_left_to_fedsarsa(kind):
    method, carts = kind(), fs.control.fleet("CartPole", 2)
    for fleet in (carts, list(carts)):
        with pytest.raises(TypeError, match=f"finite worlds, as {method.name} trains .*CartPole.*FedSARSA"):
            method.train(fleet, steps=5)


def test_step_sizes_that_overshoot_a_backup():
    with pytest.raises(ValueError, match=r"at most 1, .*got 1.5; SoftPAvg and ProjPAvg take larger ones"):
        m.QAvg(1.5)


def test_what_is_asked_of_fedsarsa_or_of_one_point_names_the_way():
    method = m.PFLSA()
    with pytest.raises(TypeError, match=r"algo must be a FedSARSA, got PFLSA.*; its own target\(fleet\)"):
        fs.theory.round_limit(FLEET, method)
    history = method.train(FLEET, steps=5, runs=1)
    with pytest.raises(ValueError, match=r"got \(3, 8\); personal_mse takes a point per agent"):
        history.mse(method.target(FLEET))


def test_theory_names_the_server_it_does_not_speak_of():
    algo = fs.FedSARSA(server=fs.servers.ControlVariates())
    with pytest.raises(ValueError, match=r"server must be the mean here.*ControlVariates"):
        fs.theory.predict(fs.paper.fleet(2), algo, 100)
