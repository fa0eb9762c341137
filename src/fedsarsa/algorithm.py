"""FedSARSA: the settings of Algorithm 1 (``alg``), and its training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks, _files, acting, engines
from fedsarsa._checks import Floats
from fedsarsa.federation import events, published_setting, servers, training
from fedsarsa.federation.events import Callback
from fedsarsa.federation.history import History, history_of
from fedsarsa.federation.participation import NO_FAULTS, Faults, sample_size
from fedsarsa.federation.problem import DOUBLE, MOST_STEPS, PRECISIONS, AnyFleet, Problem
from fedsarsa.federation.progress import Progress
from fedsarsa.federation.servers import Server
from fedsarsa.federation.spaces import any_fleet, finite_features, spaces
from fedsarsa.federation.state import State, Synchronisations
from fedsarsa.learning import features as feature_maps
from fedsarsa.learning import policies, step_sizes
from fedsarsa.learning.actions import Candidates
from fedsarsa.learning.continuous_features import BoxMap
from fedsarsa.learning.features import FeatureMap, Features, ModuloFeatures
from fedsarsa.learning.policies import FixedPolicy, Policy, Softmax
from fedsarsa.learning.schedules import stage_of
from fedsarsa.learning.step_sizes import StepSize
from fedsarsa.learning.targets import ACCUMULATING, SAMPLED, Behaviour, Step, behaviours
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet


class Prepared(NamedTuple):
    """What decides a training, checked: a problem, where it starts, and the settings its history keeps."""

    problem: Problem
    start: Floats
    settings: dict[str, Any]


@dataclass(frozen=True, eq=False)
class FedSARSA:
    """Federated SARSA with linear function approximation. The defaults are the published setting.

    Parameters
    ----------
    features : OneHot, ModuloFeatures or TabularFeatures
        The feature map phi; in worlds with continuous observations TileCoding, FourierBasis, RBF,
        RandomFourier, or a function of your own (see ``FunctionFeatures``).
    policy : Softmax, Greedy, EpsilonGreedy or FixedPolicy
        The policy improvement operator Gamma. Fixed: federated TD(0). Greedy: federated Q-learning.
    step_size : float, ConstantStep, LinearDecay, PiecewiseDecay, or a list with one per agent
        alpha_t.
    sync_every : int or None
        K, local steps per round; None: the server never averages (independent learners).
    radius : float or None
        G-bar, the radius of the ball onto which the server projects; None: no projection.
    weights : (N,) array or None
        The server's weights, which sum to one; 1/N unless given.
    server : a rule of ``fs.servers``, optional
        How the agents' parameters become the start of the next round: Mean, Median, TrimmedMean, Krum,
        Personal, PrivateMean, ServerStep, ControlVariates, FirstDirections, MeanDirection, SharedDirections,
        ImportanceMean or Consensus. ``Mean(weights, radius)`` unless given; with another rule, ``radius`` is
        an argument of that rule.
    redraw_actions : bool
        Draw the executed action anew at every step, as the authors' released program does, instead of
        executing the action of the last target (Algorithm 1, ``alg``). The mean path is the same.
    actions : GridActions or RandomActions, optional
        Which actions the policy chooses from, in worlds whose actions are numbers.
    target : {"sampled", "expected", "max"}
        What the reward is added to in the target: Q(s', a') (SARSA), the mean of Q(s', .) under the policy
        (expected SARSA), or its maximum (Q-learning).
    behaviour : FixedPolicy, or a list with one per agent, optional
        The policy that acts, where it is not the one that is learned.
    trace_decay : float
        lambda of the eligibility traces; 0 is Algorithm 1 (``alg``). Traces stay with their agent when the
        server averages, and end with the episode.
    traces : {"accumulating", "replacing"}
        What a feature's trace becomes when the feature is active again.
    step_per_feature : bool
        Divide step sizes by the number of active features. (TileCoding already has norm 1.)
    initial_value : float
        Q everywhere before the first step; a value above all returns makes agents explore. ``theta0``
        overrides it.
    participation : float
        Share of the agents that take part in a round, chosen at random, as a deployment's ``fraction``. The
        worlds of the others do not move.
    faults : Faults, optional
        Agents that drop out, are late or lie, as in a deployment.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or of another kind.

    Notes
    -----
    Every agent i holds a pair (s, a) and its parameter theta_i. A step draws r and s' from its world and a'
    from the policy Gamma(theta_i)(. | s'), and moves (eq. 4, ``eq:g``)

        theta_i <- theta_i + alpha_t phi(s, a) (r + discount phi(s', a')'theta_i - phi(s, a)'theta_i)

    Every K steps the server sets all theta_i to Proj(sum_i weights_i theta_i), the projection being onto
    the ball of ``radius``.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.1), step_size=0.05, sync_every=20)
    """

    features: Features = field(default_factory=ModuloFeatures)
    policy: Policy = field(default_factory=Softmax)
    step_size: StepSize = 0.01
    sync_every: int | None = 10
    radius: float | None = None
    weights: ArrayLike | None = None
    server: Server | None = None
    redraw_actions: bool = False
    actions: Candidates | None = None
    target: str = SAMPLED
    behaviour: Behaviour | None = None
    trace_decay: float = 0.0
    traces: str = ACCUMULATING
    step_per_feature: bool = False
    initial_value: float = 0.0
    participation: float = 1.0
    faults: Faults | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", feature_maps.checked(self.features))
        policies.check(self.policy)
        step_sizes.schedules(self.step_size)
        if self.sync_every is not None:
            try:
                every = _checks.integer("sync_every", self.sync_every, least=1)
            except TypeError:
                raise TypeError(
                    f"sync_every must be an integer, or None to never average, got {self.sync_every!r}"
                ) from None
            object.__setattr__(self, "sync_every", every)
        if self.server is not None:
            servers.check(self.server)
            if self.weights is not None or self.radius is not None:
                raise ValueError(
                    f"weights and radius must be arguments of the server where one is given, got "
                    f"{self.weights!r} and {self.radius!r} beside {self.server!r}"
                )
        mean, rule = servers.Mean(self.weights, self.radius), self.server
        if isinstance(rule, servers.Mean) and type(rule).combine is servers.Mean.combine:
            # so that either can be replaced
            mean, rule = rule, None
        for name, value in (("server", rule), ("weights", mean.weights), ("radius", mean.radius)):
            object.__setattr__(self, name, value)
        self.step()
        _checks.number("initial_value", self.initial_value)
        share = _checks.number("participation", self.participation, "a number in (0, 1]")
        if not 0 < share <= 1:
            raise ValueError(f"participation must be a number in (0, 1], got {self.participation!r}")
        if self.faults is not None:
            _checks.instance("faults", self.faults, Faults, "a Faults")
        if self.actions is not None and not isinstance(self.actions, Candidates):
            raise TypeError(f"actions must be GridActions or RandomActions, got {self.actions!r}")

    @property
    def rule(self) -> Server:
        """The server rule: ``server``, or the mean of ``weights`` and ``radius``."""
        return servers.Mean(self.weights, self.radius) if self.server is None else self.server

    def train(
        self,
        fleet: AnyFleet | Sequence[FiniteMDP],
        steps: int = 20_000,
        runs: int = 10,
        seed: int = 0,
        engine: str = "auto",
        theta0: ArrayLike | None = None,
        threads: int | None = None,
        progress: Progress = False,
        record_every: int = 1,
        checkpoint: str | Path | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        precision: str = "float64",
    ) -> History:
        """Train ``runs`` federations of a fleet, each with random numbers of its own.

        Parameters
        ----------
        fleet : Fleet, ControlFleet, GymFleet or sequence of FiniteMDP
            The agents' worlds.
        steps : int
            T, steps per agent.
        runs : int
            Federations to train.
        seed : int
            With run and agent number it decides every random number, whatever the engine.
        engine : {"auto", "cpu", "cuda", "gym", "ray", "reference"}
            ``reference`` is the specification. ``cpu`` gives the same numbers, compiled; so do ``cuda`` on an
            NVIDIA GPU and ``ray`` on a cluster (see ``engines.ray``). ``gym`` steps Gymnasium environments.
            ``auto`` takes ``cpu`` or ``gym``, and ``cuda`` for trainings that take minutes on the CPU and
            seconds on a GPU.
        theta0 : (d,), (N, d) or (runs, N, d) array, or ``history.final``, optional
            Where to start, 0 unless given: a federated parameter, to personalise it alone. A labelled array
            (run, d), such as ``history.final``, has a start for every run.
        threads : int, optional
            All cores unless given. The result does not depend on it.
        progress : bool or function
            Show a progress bar, or call a function with the number of steps done from time to time.
        record_every : int
            Record every n-th synchronisation.
        checkpoint : path, optional
            Save the training to this file every minute, on Ctrl-C, where a callback stops it or raises, and
            at the end. If it exists, training resumes from it; with more ``steps`` than before, that extends
            the training.
        callback : function, or a list of them, optional
            Called with an event for every record (see ``fs.callbacks``); ``event.stop()`` ends the training.
            A fast engine calls it with a short delay; the event holds the numbers of its own t.
        precision : {"float64", "float32"}
            ``float32`` takes half the memory, on engine ``cuda`` in finite worlds. It gives the same means
            over runs, but not the same numbers, and is not faster.

        Returns
        -------
        History
            Central parameters at the synchronisations, and every agent's at the end.

        Raises
        ------
        ValueError
            An argument is out of its range or does not fit the fleet, or ``checkpoint`` is another
            training's.
        TypeError
            An argument is of another kind.
        RuntimeError
            Every agent has stopped, as its environment failed. The error's ``history`` is what was learned
            before, or None.
        KeyboardInterrupt
            After Ctrl-C, once what is done is saved.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> history = fs.FedSARSA(sync_every=10).train(fs.paper.fleet(agents=3), steps=100, runs=2)
        >>> history
        History(2 runs, 3 agents, 100 steps, 11 records, d = 25)
        """
        prepared = self.prepare(fleet, steps, runs, seed, theta0)
        object.__setattr__(self, "_trained", prepared.problem)  # whose worlds ``values`` and ``act`` are for
        return train_prepared(
            prepared, engine, threads, progress, record_every, checkpoint, callback, precision
        )

    def prepare(
        self,
        fleet: AnyFleet | Sequence[FiniteMDP],
        steps: int = 20_000,
        runs: int = 10,
        seed: int = 0,
        theta0: ArrayLike | None = None,
    ) -> Prepared:
        """Check the arguments of ``train`` that decide a training, and put them together."""
        fleet = any_fleet(fleet)
        problem = self.problem(fleet, steps, runs, seed)
        if self.sync_every is None and (self.participation < 1 or self.faults is not None):
            raise ValueError("participation and faults need rounds: set sync_every, got None")
        if problem.partial and getattr(fleet, "vector", False):
            raise ValueError(
                "vector must be False where not all agents take part, got True: a vector environment steps "
                "all agents"
            )
        published_setting.remark(problem)
        start = starting_point(problem, theta0, self.initial_value)
        return Prepared(problem, start, self.settings(fleet) | {"warm_start": theta0 is not None})

    def values(self, theta: ArrayLike, observation: Any, fleet: Any = None) -> Floats:
        """Q(x, .) of all actions at an observation, under a parameter.

        Parameters
        ----------
        theta : (d,) array
            The parameter, such as ``history.final[0]``.
        observation : int or array
            The number of a state in finite worlds; elsewhere the observation that the environment returns.
        fleet : Fleet, ControlFleet, GymFleet or sequence of FiniteMDP, optional
            The worlds; unless given, those in which this algorithm was trained last.

        Returns
        -------
        (A,) array
            Values in the order of the actions.

        Raises
        ------
        ValueError
            ``theta`` or ``observation`` does not fit the worlds, or there are none.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> algo = fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.1))
        >>> history = algo.train(fs.paper.fleet(agents=2, states=4, actions=3), steps=50, runs=1)
        >>> algo.values(history.final[0], 2).shape
        (3,)
        """
        return self._acting(theta, fleet).values(observation)

    def act(
        self,
        theta: ArrayLike,
        observation: Any,
        rng: np.random.Generator | int | None = None,
        fleet: Any = None,
    ) -> Any:
        """An action at an observation, drawn from the policy under a parameter.

        Parameters
        ----------
        theta : (d,) array
            The parameter, such as ``history.final[0]``.
        observation : int or array
            The number of a state in finite worlds; elsewhere the observation that the environment returns.
        rng : numpy.random.Generator or int, optional
            Where chance comes from, or a seed; a fresh one unless given.
        fleet : Fleet, ControlFleet, GymFleet or sequence of FiniteMDP, optional
            The worlds; unless given, those in which this algorithm was trained last.

        Returns
        -------
        int, float or array
            The number of an action, or what ``env.step`` takes.

        Raises
        ------
        ValueError
            ``theta`` or ``observation`` does not fit the worlds, or there are none.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> algo = fs.FedSARSA(fs.OneHot(), fs.Greedy(ties="first"))
        >>> algo.act([0.0, 1.0, 0.0, 0.0], observation=0, fleet=fs.paper.fleet(2, states=2, actions=2))
        1
        """
        return self._acting(theta, fleet).act(observation, rng)

    def _acting(self, theta: ArrayLike, fleet: Any) -> acting.Policy:
        """The policy of a parameter, in a fleet or in the one of the last training."""
        if fleet is not None:
            return acting.Policy.of(fleet, self, theta)
        problem = vars(self).get("_trained")
        if problem is None:
            raise ValueError("fleet must be given before this algorithm was trained, got None")
        return acting.Policy.for_problem(problem, theta, self.policy)

    def problem(self, fleet: AnyFleet, steps: int, runs: int, seed: int) -> Problem:
        """The training problem of these settings on a fleet, checked."""
        agents = len(fleet)
        schedules = step_sizes.schedules(self.step_size)
        if len(schedules) not in {1, agents}:
            raise ValueError(f"step_size must be one or one per agent ({agents}), got {len(schedules)}")
        servers.check(self.rule, agents)
        self.rule.shares(agents)
        seed = _checks.integer("seed", seed, least=0)
        if seed >= 2**64:
            raise ValueError(f"seed must be below 2**64, got {seed}")
        faults = self.faults or NO_FAULTS
        if faults.liars and max(faults.liars) >= agents:
            raise ValueError(f"liars must be below the {agents} agents, got {list(faults.liars)}")
        if faults.absent and self.rule.noisy:
            raise ValueError(f"absent must be 0 with {self.rule!r}, whose rounds wait for all who were asked")
        asked = sample_size(self.participation, agents, self.rule.fewest)
        whole = asked == agents and not faults.absent  # theta-tilde is the mean of all agents
        distinct = {schedule: place for place, schedule in enumerate(dict.fromkeys(schedules))}
        problem = Problem(
            fleet=fleet,
            policy=self.policy,
            schedules=list(distinct),
            schedule_of=np.array([distinct[one] for one in schedules])[np.arange(agents) % len(schedules)],
            sync_every=self.sync_every,
            server=self.rule,
            step=self.step(agents),
            average_offset=step_sizes.average_offset(self.step_size) if whole else None,
            steps=_checks.integer("steps", steps, least=1, most=MOST_STEPS),
            runs=_checks.integer("runs", runs, least=1),
            seed=seed,
            asked=asked,
            faults=faults,
            stage=stage_of(self.sync_every),
            **spaces(self.features, self._fixed, self.actions, fleet),
        )
        self.rule.check(problem)
        return problem

    def step(self, agents: int | None = None) -> Step:
        """The options of the local step; checked for a number of agents, if given."""
        return Step(
            target=self.target,
            behaviour=behaviours(self.behaviour, agents),
            trace_decay=float(self.trace_decay),
            traces=self.traces,
            redraw_actions=self.redraw_actions,
            step_per_feature=self.step_per_feature,
            shifted=self.rule.shifts,
            leaves=self.rule.leaves,
            mixes=self.rule.mixes,
        )

    @overload
    def feature_map(self, world: Fleet | FiniteMDP) -> FeatureMap: ...
    @overload
    def feature_map(self, world: AnyFleet | Sequence[FiniteMDP]) -> FeatureMap | BoxMap: ...
    def feature_map(self, world: AnyFleet | Sequence[FiniteMDP] | FiniteMDP) -> FeatureMap | BoxMap:
        """The features on a fleet of any kind, or on a finite world; also checks that the policy fits it.

        Parameters
        ----------
        world : Fleet, ControlFleet, GymFleet, FiniteMDP or sequence of FiniteMDP
            Where the features are to be used.

        Returns
        -------
        Aggregation, DenseTable or BoxMap
            phi(s, a), as engines read it; ``dim`` is the number of parameters d.

        Raises
        ------
        ValueError, TypeError
            The features, the policy or ``actions`` do not fit these worlds.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> fs.FedSARSA().feature_map(fs.paper.fleet(agents=2)).dim
        25
        """
        if not isinstance(world, Sequence):  # one world with numbered states, which may be elsewhere
            return finite_features(self.features, self._fixed, self.actions, world)  # type: ignore[arg-type]
        phi: FeatureMap | BoxMap = spaces(self.features, self._fixed, self.actions, any_fleet(world))[
            "features"
        ]
        return phi

    @property
    def _fixed(self) -> tuple[FixedPolicy, ...]:
        """The policies that must fit the worlds."""
        own = (self.policy,) if isinstance(self.policy, FixedPolicy) else ()
        return (*own, *behaviours(self.behaviour))

    def settings(self, fleet: AnyFleet) -> dict[str, Any]:
        """The settings in words and numbers, for records."""
        return {
            "features": repr(self.features),
            "policy": repr(self.policy),
            "step_size": repr([repr(one) for one in step_sizes.schedules(self.step_size)]),
            "sync_every": self.sync_every,
            "radius": self.radius,
            "weights": None if self.weights is None else np.asarray(self.weights).tolist(),
            **({} if self.server is None else {"server": repr(self.server)}),
            **({} if self.participation == 1 else {"participation": self.participation}),
            **({} if self.faults is None else {"faults": repr(self.faults)}),
            "redraw_actions": self.redraw_actions,
            "agents": len(fleet),
            **fleet.describe(),
            **({} if fleet.finite and self.step().plain else self._options()),
        }

    def _options(self) -> dict[str, Any]:
        """The options beyond Algorithm 1 (``alg``) in words and numbers."""
        names = ("target", "trace_decay", "traces", "step_per_feature", "initial_value")
        named = {name: getattr(self, name) for name in names}
        return {"candidates": repr(self.actions), "behaviour": repr(self.behaviour)} | named


def checked(algo: Any) -> FedSARSA:
    """``algo`` if it is a FedSARSA."""
    if isinstance(algo, FedSARSA):
        return algo
    own = "; its own target(fleet) says where it rests" if callable(getattr(algo, "target", None)) else ""
    raise TypeError(f"algo must be a FedSARSA, got {algo!r}{own}")


def plain(algo: Any, sampled: bool = False) -> FedSARSA:
    """``algo`` if it takes the steps and the mean of Algorithm 1 (``alg``), as theory asks.

    With ``sampled``, a round may also ask some of the agents alone, and the server may add noise.
    """
    if checked(algo).participation < 1 and not (sampled and algo.weights is None):
        wanted = "weights must be None with participation" if sampled else "participation must be 1"
        raise ValueError(f"{wanted} here, got participation {algo.participation:g}")
    if algo.faults is not None:
        raise ValueError(f"faults must be None here, as no theory follows them, got {algo.faults!r}")
    if algo.server is not None and not (sampled and isinstance(algo.server, servers.PrivateMean)):
        raise ValueError(
            f"server must be the mean here, the only rule the theory covers, got {algo.server!r}"
        )
    for name in algo.step().beyond:
        expected, given = getattr(FedSARSA, name), getattr(algo, name)
        raise ValueError(f"{name} must be {expected!r} here, as in Algorithm 1 of the paper, got {given!r}")
    return checked(algo)


def train_prepared(
    prepared: Prepared,
    engine: str,
    threads: int | None,
    progress: Progress,
    record_every: int,
    checkpoint: str | Path | None,
    callback: Callback | Sequence[Callback] | None = None,
    precision: str = DOUBLE,
    extendable: bool = True,
) -> History:
    """Train what was prepared, as ``FedSARSA.train`` says; at the end it is saved if it is ``extendable``."""
    problem, start, settings = in_precision(prepared, precision)
    name = engines.automatic(problem) if engine == "auto" else engines.resolve(engine, problem.fleet)
    if threads is not None:
        threads = _checks.integer("threads", threads, least=1)
    record_every = _checks.integer("record_every", record_every, least=1)
    training.check_records(problem, record_every)
    if checkpoint is not None:
        _files.check_writable(Path(checkpoint).parent)
    path, callbacks = None if checkpoint is None else Path(checkpoint), events.checked(callback)
    with closing(engines.build(name, problem, threads)) as trainer:
        if engine == "auto" and engines.ENGINES[name].gpus:
            print(f"fedsarsa: training on the GPU (engine {name!r})", file=sys.stderr)
        state, records, why = training.train(
            problem, trainer, start, record_every, progress, path, callbacks, extendable
        )
    settings = settings | ({"stopped": state.reports} if state.reports else {})
    settings |= {} if why is None else {"stopped_early": why}
    settings |= {} if state.t == problem.steps else {"steps_asked_for": problem.steps}
    history = finished(problem, settings, state, records, name, record_every)
    nobody = training.why_nobody_is_left(state)
    if nobody is not None:
        raise training.NoAgentLeftError(nobody, history)
    return history


def train_together(
    prepared: Sequence[Prepared],
    engine: str,
    record_every: int,
    checkpoints: Sequence[Path] = (),
    precision: str = DOUBLE,
    report: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[int, History]]:
    """Train side by side what ``engine`` can train so; the places and histories of those that are done.

    Places that never come have to be trained one by one. ``report`` gets how many agent-steps were taken
    since it was last called. After Ctrl-C, the ``checkpoints`` of those that were begun are there, if given.
    """
    prepared = [in_precision(one, precision) for one in prepared]
    problems = [one.problem for one in prepared]
    for batch in engines.batches(engine, problems, record_every):
        own = [problems[place] for place in batch]
        for problem in own:
            training.check_records(problem, record_every)
        with closing(engines.build_together(engine, own)) as trainer:
            starts = [prepared[place].start for place in batch]
            paths = [checkpoints[place] for place in batch] if checkpoints else []
            trained = training.train_together(own, trainer, starts, record_every, report, paths)
        for place, (state, records) in zip(batch, trained, strict=True):
            problem, _, settings = prepared[place]
            yield place, finished(problem, settings, state, records, engine, record_every)


def finished(
    problem: Problem,
    settings: dict[str, Any],
    state: State,
    records: Synchronisations,
    engine: str,
    record_every: int,
) -> History:
    """The history of a training, which keeps ``settings``."""
    settings = settings | {
        "steps": state.t,
        "runs": problem.runs,
        "seed": problem.seed,
        "record_every": record_every,
    }
    settings |= {} if problem.precision == DOUBLE else {"precision": problem.precision}
    return history_of(problem, state, records, engine, settings, record_every)


def in_precision(prepared: Prepared, precision: str) -> Prepared:
    """What was prepared, to be computed in a precision."""
    _checks.choice("precision", precision, PRECISIONS)
    return prepared._replace(problem=replace(prepared.problem, precision=precision))


def starting_point(problem: Problem, theta0: ArrayLike | None, initial_value: float) -> Floats:
    """theta0 (or a constant value) in a shape that broadcasts to (R, N, d)."""
    dim, agents, runs = problem.features.dim, problem.agents, problem.runs
    if theta0 is None:
        constant: Floats = problem.features.constant(initial_value)
        return constant
    start = _checks.labelled("theta0", theta0, [("d",), ("agent", "d"), ("run", "d"), ("run", "agent", "d")])
    if getattr(theta0, "dims", None) == ("run", "d"):
        if start.shape != (runs, dim):
            raise ValueError(f"theta0 must have shape ({runs}, {dim}) along run and d, got {start.shape}")
        return start[:, None]
    if start.shape not in {(dim,), (agents, dim), (runs, agents, dim)}:
        raise ValueError(
            f"theta0 must have shape ({dim},), ({agents}, {dim}) or ({runs}, {agents}, {dim}), "
            f"got {start.shape}"
        )
    return start
