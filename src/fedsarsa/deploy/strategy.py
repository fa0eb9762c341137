"""FedSARSA as a Flower strategy in the Message API: ask, wait, check, average, project, checkpoint.

A round ends when everybody asked has replied or its deadline has passed. It counts with the replies that
passed the checks, if they are enough; otherwise it is asked again, which costs agents that have answered
nothing: they repeat their answer. The checkpoint is written before the next round is asked, so a server
that goes on from it asks what was asked before.
"""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedsarsa._checks import Floats
from fedsarsa.deploy import exchange, rules
from fedsarsa.deploy.attempt import Askings, Attempt
from fedsarsa.deploy.checks import Examiner, Reply
from fedsarsa.deploy.config import Federation
from fedsarsa.deploy.ledger import Ledger
from fedsarsa.deploy.roster import Roster
from fedsarsa.federation.servers.projection import project

GRACE = 5.0  # seconds that messages live beyond the round's deadline, so that no reply is lost on its way
BRIDGE_SHARE = 0.7  # of the deadline: how long a bridge waits for its agent, and a hanging one is named
PATIENCE = 10  # deadlines that a round may take before the server gives up
PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds from one asking of a round to the next; they double each time


class FedSarsaStrategy(Strategy):
    """The server of a deployed federation.

    Parameters
    ----------
    ledger : Ledger
        Its memory; it goes on from there.
    say : callable
        Told, in words, what happens.
    keys : dict, optional
        Which agent's key each Flower node has, see `Roster`.
    """

    def __init__(
        self,
        settings: Federation,
        ledger: Ledger,
        say: Callable[[str], None],
        keys: dict[int, int] | None = None,
    ) -> None:
        self.settings, self.ledger, self.say = settings, ledger, say
        rules.check(settings)
        self.private = rules.private(settings)
        self.standing = ledger.open()
        self.roster = Roster(self.standing.nodes, keys)
        if self.standing.privacy:
            rules.remember(self.private, self.standing.privacy)
        self.askings = Askings()  # of the round in progress
        self.attempt: Attempt  # the last of them; there is none before `configure_train`
        self.away = self.writing = 0.0  # seconds spent asking Flower for nodes, and on the ledger
        self.warned, self.trouble = False, ""
        weights = settings.algorithm.weights
        self.weights = np.ones(settings.agents) if weights is None else np.asarray(weights)

    def summary(self) -> None:
        """Say what is about to happen."""
        settings, standing = self.settings, self.standing
        self.say(
            f"federation {standing.federation}: round {standing.round} of {settings.rounds} is done, "
            f"{settings.agents} agents, K = {settings.every}, d = {settings.dim}, {settings.server.rule}"
        )

    def train(self, grid: Grid) -> Floats:
        """Run the rounds that are left; the final central parameter."""
        self.summary()
        done = self.standing.round
        while self.standing.round < self.settings.rounds:
            rules.check_budget(self.private, self.standing.round)
            if self.standing.round == done:
                self._gather_agents(grid)
            self._next_round(grid)
        return self.standing.theta

    def _next_round(self, grid: Grid) -> None:
        """Ask for a round until it counts; give up when it was asked for long, not when it was asked often.

        Agents that are being started again refuse quickly, and must find the server still asking.
        """
        deadline = self.settings.server.deadline
        self.askings = Askings()
        pause, asked = PAUSE, 0.0
        while (theta := self._ask(grid)) is None:
            self._check_strangers()
            if self.askings.waited >= PATIENCE * deadline:
                attempt = self.attempt
                silent = {self.roster.name(node): "no reply" for node in attempt.missing}
                why = "".join(f"; {name}: {reason}" for name, reason in (attempt.rejected | silent).items())
                raise RuntimeError(
                    f"round {self.standing.round + 1} was asked for {PATIENCE} deadlines of {deadline:g} "
                    f"seconds and never counted: {self._lacking()}{why}"
                )
            wait = max(0.0, min(pause, LONGEST_PAUSE, deadline) - (self.askings.waited - asked))
            time.sleep(wait)
            self.askings.waited += wait
            asked, pause = self.askings.waited, 2 * pause
        self._close(theta)

    def _ask(self, grid: Grid) -> Floats | None:
        """Ask for the next round once; the new central parameter if it counts."""
        begun = time.perf_counter()
        number, askings = self.standing.round + 1, self.askings
        arrays = ArrayRecord({"theta": Array(self.standing.theta)})
        self.away = 0.0
        messages = list(self.configure_train(number, arrays, ConfigRecord(), grid))
        askings.sent += sum(len(exchange.request(one)) + arrays["theta"].shape[0] * 8 for one in messages)
        asked_at = time.perf_counter()
        deadline = self.settings.server.deadline
        replies, unseen = exchange.exchange(grid, messages, deadline, self.attempt.hear, self.say)
        answered_at = time.perf_counter()
        askings.waited += answered_at - asked_at
        result, _ = self.aggregate_train(number, replies)
        askings.add(self.attempt)
        if result is None:
            self.say(f"round {number}: {self._lacking()}")
        askings.own += asked_at - begun - self.away + unseen + time.perf_counter() - answered_at
        return None if result is None else result["theta"].numpy()

    def _close(self, theta: Floats) -> None:
        """Write down a round that counts."""
        begun = time.perf_counter()
        standing, agents = self.standing, list(self.attempt.accepted)
        standing.privacy = rules.spent(self.private)
        if standing.privacy:  # before anybody can see the noisy average: what is spent stays spent
            self.ledger.save(standing)
        moved = float(np.linalg.norm(theta - standing.theta))
        standing.theta, standing.round = theta, standing.round + 1
        standing.counted |= dict.fromkeys(agents, standing.round)
        self.askings.own += self.writing + time.perf_counter() - begun
        record = {"round": standing.round, "agents": agents, "moved": moved} | self.askings.record()
        record["lost"] = self.attempt.lost
        if "epsilon" in standing.privacy:
            record["epsilon"] = standing.privacy["epsilon"]
        closing = time.perf_counter()
        self.ledger.close_round(standing, record)
        self.writing = time.perf_counter() - closing  # it is in the next round's record
        spent = f", epsilon {record['epsilon']:.4g}" if "epsilon" in record else ""
        self.say(f"round {standing.round}: agents {', '.join(map(str, agents))}; moved {moved:.4g}{spent}")

    @property
    def _needed(self) -> int:
        return rules.needed(self.settings)

    def _lacking(self) -> str:
        """Why the last asking did not count."""
        numbers = list(self.attempt.accepted)
        if len(numbers) >= self._needed and not self.weights[numbers].any():
            who = ", ".join(map(str, numbers))
            return f"only agents without weight have replied ({who}), and they have no average"
        return f"{len(numbers)} sound replies of {len(self.attempt.asked)}, {self._needed} needed"

    def _check_strangers(self) -> None:
        """Give up at once if too many cannot take part, which asking again does not change."""
        strangers = self.askings.strangers
        if self.settings.agents - len(strangers) < self._needed:
            why = "; ".join(strangers.values())
            raise RuntimeError(f"fewer than {self._needed} agents can take part; {why}")

    def _gather_agents(self, grid: Grid) -> None:
        """Wait for all agents up to one deadline, and for as many as are needed without end."""
        until = time.monotonic() + self.settings.server.deadline
        self._wait(grid, lambda: self.settings.agents if time.monotonic() < until else self._needed)

    def _wait(self, grid: Grid, enough: Callable[[], int]) -> list[int]:
        """The nodes that are here, as soon as they are enough."""
        told = -1
        while len(present := self._present(grid)) < enough():
            if len(present) != told:
                told = len(present)
                absent = ", ".join(self.roster.absent(present))
                self.say(
                    f"waiting for agents: {told} of {self.settings.agents} are here, {self._needed} needed"
                    + (f"; not here: {absent}" if absent else "")
                )
            time.sleep(exchange.LONGEST_POLL)
            self.away += exchange.LONGEST_POLL
        return present

    def _say_anew(self, line: str) -> None:
        """Say what was not the last thing said of its kind."""
        if line != self.trouble:
            self.say(line)
        self.trouble = line

    def _present(self, grid: Grid) -> list[int]:
        begun = time.perf_counter()
        nodes = sorted(exchange.passing(grid.get_node_ids, self._say_anew) or ())
        self.away += time.perf_counter() - begun
        return nodes

    # ---- Flower's steps of a round ----

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The questions of a round: to everybody present, or to some of them."""
        settings = self.settings
        present = self._wait(grid, lambda: self._needed)
        size = min(rules.sample_size(settings), len(present))
        # Whoever failed in an earlier attempt is not waited for while enough others are here. Private rounds
        # may do so as well: their accountant takes every release for one of all agents, without amplification
        # by sampling, and noise is made for the attempt that counts, of the same size whoever was asked.
        failed = self.askings.failed
        if len(present) - len(failed.intersection(present)) < size:
            failed.clear()
        present = [node for node in present if node not in failed]
        if size < len(present):  # the same choice after a restart
            rng = np.random.default_rng([settings.training.seed, server_round])
            present = sorted(rng.choice(np.array(present, np.uint64), size, replace=False).tolist())
        question = {
            "federation": self.standing.federation,
            "round": server_round,
            "t": (server_round - 1) * settings.every,
            "steps": settings.every,
            "terms": settings.terms,
            "patience": BRIDGE_SHARE * settings.server.deadline,
        }
        theta = np.array(arrays["theta"].numpy())
        examiner = Examiner(settings, self.standing.federation, server_round, theta)
        self.attempt = Attempt(present, examiner, self.roster, self.say)
        if not self.warned and (warning := examiner.warning()):
            self.say(warning)
            self.warned = True
        messages = [
            Message(
                RecordDict({"arrays": arrays, "config": self._addressed(node, question)}),
                node,
                MessageType.TRAIN,
                ttl=settings.server.deadline + GRACE,
                group_id=str(server_round),
            )
            for node in present
        ]
        if self.private is not None and isinstance(self.private.strategy, rules.Asked):
            self.private.strategy.messages = messages
            self.private.configure_train(server_round, arrays, config, grid)
        return messages

    def _addressed(self, node: int, question: dict[str, Any]) -> ConfigRecord:
        """The question, and which round last counted the agent there, or all where that is not known."""
        counted, agent = self.standing.counted, self.roster.agent(node)
        known = counted if agent is None else {agent: counted.get(agent, 0)}
        return ConfigRecord({"request": json.dumps(question | {"counted": known})})

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The projected average of the sound replies; None if they are too few."""
        self.attempt.gather(replies)
        accepted = self.attempt.accepted
        heard = sum(float(self.weights[number]) for number in accepted)
        enough = len(accepted) >= self._needed and heard > 0
        if self.private is not None:  # without replies, Flower forgets the round it was about to count
            counted = [self._checked(*one) for one in accepted.values()] if enough else []
            arrays, metrics = self.private.aggregate_train(server_round, counted)
            if arrays is None:
                return None, None
            theta = project(arrays["theta"].numpy(), self.settings.algorithm.radius)
            return ArrayRecord({"theta": Array(theta)}), metrics
        if not enough:
            return None, None
        after = np.zeros((1, self.settings.agents, self.settings.dim))
        present = np.zeros((1, self.settings.agents), np.bool)
        for number, (reply, _) in accepted.items():
            after[0, number], present[0, number] = reply.theta, True
        (theta,) = self.settings.rule.combine(self.standing.theta[None], after, present)
        return ArrayRecord({"theta": Array(theta)}), None

    def _checked(self, reply: Reply, message: Message) -> Message:
        """The message with what was checked, and nothing else of what the agent sent."""
        theta = rules.clippable(reply.theta, self.attempt.examiner.theta)
        message.content = RecordDict(
            {
                "arrays": ArrayRecord({"theta": Array(theta)}),
                "metrics": MetricRecord({rules.WEIGHT: float(self.weights[reply.number])}),
            }
        )
        return message

    def configure_evaluate(
        self,
        server_round: int,  # noqa: ARG002
        arrays: ArrayRecord,  # noqa: ARG002
        config: ConfigRecord,  # noqa: ARG002
        grid: Grid,  # noqa: ARG002
    ) -> Iterable[Message]:
        """Nothing is asked: agents evaluate for themselves."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> None:
        """Nothing was asked."""
