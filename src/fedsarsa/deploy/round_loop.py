"""The server's rounds, a loop over Flower's grid: ask, wait, check, average, project, checkpoint.

A round ends when everybody asked has replied or its deadline has passed. It counts with the replies that
passed the checks, if they are enough; otherwise it is asked again, which costs agents that have answered
nothing: they repeat their answer. The checkpoint is written before the next round is asked, so a server
that resumes from it asks what was asked before.
"""

import json
import logging
import time
from collections.abc import Callable

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedsarsa._checks import Floats
from fedsarsa.deploy import bridge, exchange, wire
from fedsarsa.deploy.attempt import Askings, Attempt
from fedsarsa.deploy.checks import Examiner
from fedsarsa.deploy.federation_config import Federation
from fedsarsa.deploy.ledger import Ledger
from fedsarsa.deploy.privacy import PrivateServer
from fedsarsa.deploy.roster import Roster
from fedsarsa.federation.participation import sample
from fedsarsa.federation.servers import Context
from fedsarsa.federation.servers.mean import average

log = logging.getLogger("fedsarsa.deploy.server")


class RoundLoop:
    """The server of a deployed federation.

    Parameters
    ----------
    ledger : Ledger
        Its memory; it resumes from there.
    keys : dict, optional
        Which agent's key each Flower node has, see `Roster`.
    """

    def __init__(self, settings: Federation, ledger: Ledger, keys: dict[int, int] | None = None) -> None:
        settings.check_server()
        self.settings, self.ledger = settings, ledger
        self.standing = ledger.open()
        self.roster = Roster(self.standing.nodes, keys)
        private = settings.server.privacy is not None
        self.private = PrivateServer(settings, self.standing.privacy) if private else None
        weights = settings.algorithm.weights
        self.weights = np.ones(settings.agents) if weights is None else np.asarray(weights)
        if settings.rule.personal and keys is None:
            raise ValueError(
                f'server.rule: "{settings.server.rule}" needs node keys, as agents get parameters of their '
                "own, got none; make them with `fedsarsa deploy keys`"
            )
        self.begun = 0.0  # when agents were there, and then when the last round was ready to be written down
        self.warned = False

    def train(self, grid: Grid) -> Floats:
        """Run the rounds that are left; the final central parameter."""
        settings, standing = self.settings, self.standing
        log.info(
            "federation %s: round %d of %d is done, %d agents, K = %d, d = %d, %s",
            *(standing.federation, standing.round, settings.rounds),
            *(settings.agents, settings.every, settings.dim, settings.server.rule),
        )
        while standing.round < settings.rounds:
            if self.private is not None:
                self.private.check_budget(standing.round)
            if not self.begun:
                self._gather_agents(grid)
            self.next_round(grid)
        if (remark := settings.rule.remark(standing.memory)) is not None:
            log.warning(remark)
        return standing.theta

    def _gather_agents(self, grid: Grid) -> None:
        """Wait for all agents up to one deadline, and for as many as are needed without end."""
        until = time.monotonic() + self.settings.deadline.seconds
        agents, needed = self.settings.agents, self.settings.needed
        self._present(grid, lambda: agents if time.monotonic() < until else needed)
        self.begun = time.perf_counter()

    def next_round(self, grid: Grid) -> None:
        """Ask for a round until it counts; give up when it was asked for long, not when it was asked often.

        Agents that are being started again refuse quickly, and must find the server still asking.
        """
        deadline, askings = self.settings.deadline, Askings(self.begun or time.perf_counter())
        while True:
            before = askings.waited
            attempt, theta = self.ask(grid, askings)
            if theta is not None:
                return self._close(theta, attempt, askings)
            lacking = self._lacking(attempt)
            log.warning("round %d: %s", self.standing.round + 1, lacking)
            self._check_strangers(askings)
            if askings.waited >= deadline.round:
                silent = {self.roster.name(node): "no reply" for node in attempt.missing}
                why = "".join(f"; {name}: {reason}" for name, reason in (attempt.rejected | silent).items())
                raise RuntimeError(
                    f"round {self.standing.round + 1} was asked for {deadline.most:g} deadlines of "
                    f"{deadline.seconds:g} seconds and never counted: {lacking}{why}"
                )
            wait = max(0.0, deadline.pause(askings.count) - (askings.waited - before))
            time.sleep(wait)
            askings.waited += wait

    def ask(self, grid: Grid, askings: Askings) -> tuple[Attempt, Floats | None]:
        """Ask for the next round once; the new central parameter if it counts."""
        settings, standing = self.settings, self.standing
        start = standing.starts if settings.rule.personal else standing.theta
        examiner = Examiner(settings, standing.federation, standing.round + 1, start)
        if not self.warned and (warning := examiner.warning()):
            log.warning(warning)
            self.warned = True
        attempt = Attempt(self._choose(grid, askings), examiner, self.roster)
        messages, sent = self._questions(attempt.asked)
        asked_at = time.perf_counter()
        askings.unseen += exchange.exchange(grid, messages, settings.deadline.seconds, attempt.hear)
        askings.waited += time.perf_counter() - asked_at
        askings.sent += sent
        attempt.close()
        askings.add(attempt)
        return attempt, self.combine(attempt)

    def combine(self, attempt: Attempt) -> Floats | None:
        """The next start, (d,) or (N, d); None if the sound replies are too few."""
        accepted, settings = attempt.accepted, self.settings
        if len(accepted) < settings.needed or not self.weights[list(accepted)].any():
            return None
        if self.private is not None:
            thetas = np.stack([reply.theta for reply in accepted.values()])
            return self.private.combine(self.standing.theta, thetas)
        after = np.zeros((1, settings.agents, settings.dim))
        present = np.zeros((1, settings.agents), np.bool)
        standing, rule = self.standing, settings.rule
        left = np.zeros((1, settings.agents, settings.dim if rule.leaves else 0))
        for number, reply in accepted.items():
            after[0, number], left[0, number], present[0, number] = reply.theta, reply.left, True
        context = Context(
            t=standing.round * settings.every,
            steps=settings.every,
            step_sums=np.empty(0),  # no deployed rule asks for them
            left=left,
            shift=np.empty((1, settings.agents, 0)),
            memory=standing.memory,
            present=present,
        )
        before = standing.starts if rule.personal else standing.theta
        (start,) = rule.combine(before[None], after, context)
        return np.asarray(start)

    def _choose(self, grid: Grid, askings: Askings) -> list[int]:
        """The nodes to ask: everybody present, or some of them."""
        settings = self.settings
        present = self._present(grid, lambda: settings.needed, askings)
        size = min(settings.sample_size, len(present))
        # Whoever failed in an earlier attempt is not waited for while enough others are here. Private rounds
        # may do so as well: their accountant takes every release for one of all agents, without amplification
        # by sampling, and noise is made for the attempt that counts, of the same size whoever was asked.
        if len(set(present) - askings.failed) < size:
            askings.failed.clear()
        present = [node for node in present if node not in askings.failed]
        # The same choice after a restart.
        return sample(settings.training.seed, self.standing.round + 1, 0, np.array(present, np.uint64), size)

    def _questions(self, nodes: list[int]) -> tuple[list[Message], int]:
        """A round's question to every node, and how many bytes they are."""
        settings, standing, deadline = self.settings, self.standing, self.settings.deadline
        number = standing.round + 1
        question = {
            "federation": standing.federation,
            "round": number,
            "terms": settings.terms,
        }
        common, limits = wire.packed(standing.theta), {"wait": deadline.bridge, "work": deadline.agent}
        personal = settings.rule.personal
        own = others = np.empty((1, 0))
        if personal:
            own, others = settings.rule.acting(standing.starts[None], standing.memory)
        messages, sent = [], 0
        for node in nodes:
            # Which round last counted the agent there, or all agents where it is not known who that is.
            agent, counted = self.roster.agent(node), standing.counted
            known = counted if agent is None else {agent: counted.get(agent, 0)}
            vector = common
            if personal:  # the agent's own parameter, and the others' part of its mixture
                vector = wire.packed(np.concatenate([standing.starts[agent], others[0, agent]]))
                question["own"] = float(own[0, agent])
            request = json.dumps(question | {"counted": known}).encode()
            arrays = bridge.parameters(vector)
            content = RecordDict({"arrays": arrays, "config": ConfigRecord({"request": request, **limits})})
            messages.append(
                Message(content, node, MessageType.TRAIN, ttl=deadline.message, group_id=str(number))
            )
            sent += len(request) + len(vector)
        return messages, sent

    def _close(self, theta: Floats, attempt: Attempt, askings: Askings) -> None:
        """Write down a round that counts."""
        standing, agents = self.standing, list(attempt.accepted)
        if self.private is not None:  # before anybody can see the noisy average: what is spent stays spent
            standing.privacy = self.private.spent
            self.ledger.save(standing)
        if self.settings.rule.personal:
            standing.starts = theta
            theta = average(self.settings.rule.shares(len(theta)), theta)
        moved = float(np.linalg.norm(theta - standing.theta))
        standing.theta, standing.round = theta, standing.round + 1
        standing.counted |= dict.fromkeys(agents, standing.round)
        record = {"round": standing.round, "agents": agents, "moved": moved} | askings.record()
        record["lost"] = attempt.lost
        spent = ""
        if "epsilon" in standing.privacy:
            record["epsilon"] = standing.privacy["epsilon"]
            spent = f", epsilon {record['epsilon']:.4g}"
        self.begun = time.perf_counter()
        self.ledger.close_round(standing, record)
        who = ", ".join(map(str, agents))
        log.info("round %d: agents %s; moved %.4g%s", standing.round, who, moved, spent)

    def _lacking(self, attempt: Attempt) -> str:
        """Why an asking did not count."""
        numbers, needed = list(attempt.accepted), self.settings.needed
        if len(numbers) >= needed:
            who = ", ".join(map(str, numbers))
            return f"only agents without weight have replied ({who}), and they have no average"
        return f"{len(numbers)} sound replies of {len(attempt.asked)}, {needed} needed"

    def _check_strangers(self, askings: Askings) -> None:
        """Give up at once if too many cannot take part, which asking again does not change."""
        needed = self.settings.needed
        if self.settings.agents - len(askings.strangers) < needed:
            why = "; ".join(askings.strangers.values())
            raise RuntimeError(f"fewer than {needed} agents can take part; {why}")

    def _present(self, grid: Grid, enough: Callable[[], int], askings: Askings | None = None) -> list[int]:
        """The nodes that are here, as soon as they are enough."""
        begun, told, said = time.perf_counter(), -1, set[str]()
        while len(present := sorted(exchange.passing(grid.get_node_ids, said) or ())) < enough():
            if len(present) != told:
                told = len(present)
                absent = ", ".join(self.roster.absent(present))
                log.info(
                    "waiting for agents: %d of %d are here, %d needed%s",
                    *(told, self.settings.agents, self.settings.needed),
                    f"; not here: {absent}" if absent else "",
                )
            time.sleep(exchange.LONGEST_POLL)
        if askings is not None:
            askings.away += time.perf_counter() - begun
        return present
