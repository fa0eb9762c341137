"""Arguments of the wrong kind: every function names the argument, the value and what it expected."""

import pytest

import fedsarsa as fs
from fedsarsa import theory

FLEET = fs.paper.fleet(2, states=4, actions=2)
CARTS = fs.control.fleet("CartPole", 2)
ALGO = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 0.1, 1)
MAP, POLICY = ALGO.features, ALGO.policy

NO_FLEET = "fleet must be a Fleet or a sequence of FiniteMDP, got"
NOT_FINITE = r"fleet must be of finite worlds, .*got ControlFleet\(.*fs.rollouts measures returns"
NO_ALGO = "algo must be a FedSARSA, got"


@pytest.mark.parametrize(
    ("function", "rest"),
    [
        (theory.predict, [10]),
        (theory.plan, [0.1]),
        (theory.personal_weights, [10]),
        (theory.coalitions, [10]),
        (theory.personal_plan, [0.1]),
        (theory.bounds, [10]),
        (theory.constants, []),
        (theory.evaluation.evaluate, [[0.0] * 8]),
        (lambda fleet, algo: theory.decompose(ALGO.train(FLEET, 1, runs=1), fleet, algo), []),
    ],
    ids=[
        "predict",
        "plan",
        "personal_weights",
        "coalitions",
        "personal_plan",
        "bounds",
        "constants",
        "evaluate",
        "decompose",
    ],
)
def test_fleet_and_algorithm(function, rest):
    for fleet, algo, message in (
        (3, ALGO, f"{NO_FLEET} 3"),
        (FLEET[0], ALGO, rf"{NO_FLEET} FiniteMDP\(states=4"),
        (ALGO, FLEET, rf"{NO_FLEET} FedSARSA\("),
        ([FLEET[0], 3], ALGO, r"worlds\[1\] must be a FiniteMDP, got 3"),
        (CARTS, ALGO, NOT_FINITE),
        (FLEET, 3, f"{NO_ALGO} 3"),
        (FLEET, POLICY, rf"{NO_ALGO} Softmax\("),
    ):
        with pytest.raises(TypeError, match=message):
            function(fleet, algo, *rest)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.fixed_point(3, MAP, POLICY), "mdp must be a FiniteMDP, got 3"),
        (lambda: theory.fixed_point(FLEET, MAP, POLICY), r"mdp must be a FiniteMDP, got Fleet\("),
        (lambda: theory.fixed_point(FLEET[0], POLICY, MAP), r"features must be .* got Softmax\("),
        (lambda: theory.fixed_point(FLEET[0], MAP, "greedy"), "policy must be .* got 'greedy'"),
        (lambda: theory.federated_point(3, MAP, POLICY), f"{NO_FLEET} 3"),
        (lambda: theory.federated_point(FLEET, 3, POLICY), "features must be .* got 3"),
        (lambda: theory.federated_point(FLEET, MAP, 3), "policy must be .* got 3"),
        (lambda: theory.federated_point(FLEET, MAP, POLICY, "x"), "weights must be an array"),
        (lambda: theory.decompose(FLEET, 3, ALGO), r"history must be a History, got Fleet\("),
        (lambda: ALGO.train(3, 10), f"{NO_FLEET} 3"),
        (lambda: fs.Fleet(3), "worlds must be a sequence of FiniteMDP, got 3"),
    ],
)
def test_other_arguments(call, message):
    with pytest.raises(TypeError, match=message):
        call()
