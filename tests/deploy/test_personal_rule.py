"""The personal rule over a grid: the simulation's numbers, with faults, restarts and bad requests."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.deploy import agent as agents_module
from fedsarsa.deploy import federation_config, ledger, wire
from fedsarsa.deploy.agent import Agent
from fedsarsa.engines.reference import ReferenceEngine, local_step
from fedsarsa.federation.rounds import synchronise
from fedsarsa.federation.state import first_state
from tests.deploy.federations import CONFIG, KEYS, request
from tests.deploy.grids import NODES, FakeGrid, lose, theta_of, with_theta

pytestmark = pytest.mark.filterwarnings(
    "ignore:Personal. every agent listens to itself alone"
)  # short trainings

WEIGHTS = [[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.25, 0.25, 0.5]]
BASE = CONFIG.replace("weights = [0.2, 0.5, 0.3]", "").replace("steps = 70", "steps = 280")
RULES = {
    "learned": ("", fs.servers.Personal(radius=8.0)),
    "given": (f"weights = {WEIGHTS}", fs.servers.Personal(weights=WEIGHTS, radius=8.0)),
    "visits": ("visits = true", fs.servers.Personal(radius=8.0, visits=True)),
    "visits and mixture": (
        f'act = "mixture"\nvisits = true\nweights = {WEIGHTS}',
        fs.servers.Personal("mixture", WEIGHTS, 8.0, visits=True),
    ),
    "mixture": (f'act = "mixture"\nweights = {WEIGHTS}', fs.servers.Personal("mixture", WEIGHTS, 8.0)),
}


@pytest.fixture(params=RULES)
def rule(request):
    return request.param


@pytest.fixture
def personal(tmp_path, rule):
    path = tmp_path / "personal.toml"
    path.write_text(BASE + f'[server]\nrule = "personal"\ndeadline = 0.3\n{RULES[rule][0]}\n')
    return federation_config.load(path)


@pytest.fixture
def agents(personal, homes):
    return FakeGrid({node: Agent(personal, i, homes[i]) for i, node in enumerate(NODES)})


def simulated(settings, rule):
    algo = replace(settings.algorithm, server=RULES[rule][1], radius=None)
    return algo, algo.train(settings.worlds, settings.training.steps, runs=1, seed=settings.training.seed)


def assert_equal(made, settings, expected):
    standing = made.standing
    np.testing.assert_allclose(standing.starts, expected.local[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(standing.memory["weights"][0], expected.weights[0, -1], rtol=0, atol=1e-9)
    seen = ledger.central(made.home, settings.dim)
    np.testing.assert_allclose(seen, expected.central[0], rtol=0, atol=1e-12)


def test_it_trains_what_the_simulation_trains(server, personal, agents, rule):
    made = server(personal, KEYS)
    made.train(agents)
    _, expected = simulated(personal, rule)
    assert_equal(made, personal, expected)
    # The last question told every agent the mixture after the round before.
    for number, agent in enumerate(agents.agents.values()):
        start, others = np.split(agent.asked, 2)
        own = float(expected.weights[0, -2, number, number])
        np.testing.assert_allclose(own * start + others, expected.personal[0, -2, number], rtol=0, atol=1e-12)
        assert others.any() or rule in {"learned", "visits"}
        if "visits" in rule:
            assert made.standing.memory["visits"][0].min(axis=0).any()


def test_a_server_and_agents_that_start_anew_go_on_with_the_same_numbers(server, personal, homes, rule):
    short = replace_steps(personal, 140)
    server(short, KEYS).train(FakeGrid({n: Agent(short, i, homes[i]) for i, n in enumerate(NODES)}))
    made = server(personal, KEYS)
    assert made.standing.round == 20
    made.train(FakeGrid({node: Agent(personal, i, homes[i]) for i, node in enumerate(NODES)}))
    assert_equal(made, personal, simulated(personal, rule)[1])


def replace_steps(settings, steps):
    """The same federation, of fewer steps."""
    changed = copy.copy(settings)
    changed.training = settings.training.model_copy(update={"steps": steps})
    return changed


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"shared-directions"\nown = 0.3', fs.servers.SharedDirections(own=0.3, radius=8.0)),
        ('"consensus"\ngraph = "star"', fs.servers.Consensus("star", radius=8.0)),
    ],
)
def test_other_rules_with_a_parameter_per_agent_train_what_the_simulation_trains(
    server, tmp_path, homes, text, rule
):
    path = tmp_path / "other.toml"
    path.write_text(BASE + f"[server]\nrule = {text}\n")
    settings = federation_config.load(path)
    made = server(settings, KEYS)
    made.train(FakeGrid({node: Agent(settings, i, homes[i]) for i, node in enumerate(NODES)}))
    algo = replace(settings.algorithm, server=rule, radius=None)
    expected = algo.train(settings.worlds, settings.training.steps, runs=1, seed=settings.training.seed)
    np.testing.assert_allclose(made.standing.starts, expected.local[0], rtol=0, atol=1e-12)
    assert made.standing.starts.std(axis=0).min() > 1e-3  # agents differ
    seen = ledger.central(made.home, settings.dim)
    np.testing.assert_allclose(seen, expected.central[0], rtol=0, atol=1e-12)


@pytest.mark.slow  # a round waits for who is missed
@pytest.mark.parametrize("missed", [{2, 3, 17}, set(range(1, 9))], ids=["faults", "joins late"])
def test_an_agent_that_misses_rounds_keeps_its_parameter(server, personal, agents, rule, missed):
    lose(agents, NODES[1], missed)
    short = replace_steps(personal, 140)
    made = server(short, KEYS)
    made.train(agents)
    # The simulation, round by round, in which agent 1 is not present then, and its world stands still.
    algo, _ = simulated(short, rule)
    problem = algo.problem(personal.worlds, 140, 1, personal.training.seed)
    state = first_state(problem, personal.theta0)
    ReferenceEngine(problem).start(state)
    for number in range(1, 21):
        present = np.array([[True, number not in missed, True]])
        for i in np.flatnonzero(present[0]):
            for t in range((number - 1) * 7, number * 7):
                local_step(problem, state, 0, int(i), t, problem.step_sizes(t, 1)[problem.schedule_of[i], 0])
        synchronise(problem, state, number * 7 - 1, present)
    np.testing.assert_allclose(made.standing.starts, state.theta[0], rtol=0, atol=1e-12)
    for name in ("weights", "visits", "joined"):
        np.testing.assert_allclose(made.standing.memory[name], state.memory[name], rtol=0, atol=1e-9)


@pytest.mark.parametrize("rule", ["visits"], indirect=True)
@pytest.mark.parametrize("visits", [[-1.0, 0, 0, 0, 0, 1], [np.nan] * 6, [10.0] * 6, []], ids=str)
def test_visits_that_no_steps_leave_are_turned_away(server, personal, agents, visits):
    def lie(node, number, reply):
        told = np.concatenate([theta_of(reply)[: personal.dim], visits])
        return with_theta(reply, told) if node == NODES[2] else reply

    agents.spoil = lie
    made = server(replace_steps(personal, 7), KEYS)
    made.train(agents)
    assert any(
        "agent 2" in line and ("visits" in line or "expected 12 numbers" in line) for line in made.said
    )
    assert not made.standing.memory["visits"][0, 2].any()


@pytest.mark.parametrize("rule", ["given"], indirect=True)
def test_replies_are_checked_against_the_agents_own_start(server, personal, agents):
    def lie(node, number, reply):  # what agent 0 holds is beyond the reach of agent 2 in the first round
        return with_theta(reply, np.full(personal.dim, 7.0)) if node == NODES[2] and number == 1 else reply

    agents.spoil = lie
    made = server(replace_steps(personal, 7), KEYS)
    made.train(agents)
    assert any("agent 2" in line and "honest" in line for line in made.said)
    np.testing.assert_array_equal(made.standing.starts[2], personal.theta0)


@pytest.mark.parametrize("rule", ["learned"], indirect=True)
def test_too_few_rounds_are_told(server, personal, agents):
    made = server(replace_steps(personal, 21), KEYS)
    made.train(agents)
    assert made.said[-1].startswith("every agent listens to itself alone after 3 rounds")


@pytest.mark.parametrize("rule", ["learned"], indirect=True)
def test_it_needs_keys(server, personal):
    with pytest.raises(ValueError, match='"personal" needs node keys'):
        server(personal, None)


@pytest.mark.parametrize("rule", ["mixture"], indirect=True)
def test_agents_refuse_what_is_no_question_of_the_personal_rule(personal, homes):
    one = Agent(personal, 0, homes[0])

    def ask(theta, **changes):
        asked = {name: value for name, value in request(personal, 1, **changes).items() if name != "until"}
        header, _ = agents_module.reply(one, json.dumps(asked).encode(), wire.packed(theta), 1e18)
        return header["refused"]

    assert "own must be of type float" in ask(np.zeros(12))
    assert "theta must be 12 finite numbers, got 6" in ask(np.zeros(6), own=1.0)
    assert "own must be a finite number" in ask(np.zeros(12), own=float("inf"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weights = [[1.0, 0.0], [0.0, 1.0]]", r"weights must have shape \(3, 3\), got \(2, 2\)"),
        ("weights = [[0.5, 0.4, 0.0], [0, 1, 0], [0, 0, 1]]", "weights must sum to one"),
        ("privacy = { clip = 0.5, noise = 2.0 }", 'expected "mean" with privacy'),
    ],
)
def test_bad_settings_are_one_sentence(tmp_path, text, message):
    path = tmp_path / "personal.toml"
    path.write_text(BASE + f'[server]\nrule = "personal"\ndeadline = 0.3\n{text}\n')
    with pytest.raises(ValueError, match=message):
        federation_config.load(path).check_server()
