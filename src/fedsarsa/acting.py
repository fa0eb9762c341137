"""A learned policy: values and actions at observations, without the fleet that it was learned in.

It is one small file on disk: arrays, and a JSON object that says what they are. Nothing in it is executed.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks, _npz
from fedsarsa._checks import Floats
from fedsarsa.federation.problem import Problem
from fedsarsa.learning import policies
from fedsarsa.learning.bases import BASES
from fedsarsa.learning.continuous_features import BoxMap
from fedsarsa.learning.features import Aggregation, DenseTable, FeatureMap
from fedsarsa.learning.function_features import FunctionBasis
from fedsarsa.learning.policies import Policy as Improvement
from fedsarsa.learning.schedules import LAST, Scheduled
from fedsarsa.worlds.gym import GymFleet

KIND = "policy"
Seed = np.random.Generator | int | None


@dataclass(frozen=True, eq=False)
class Policy:
    """A learned policy, which acts by a parameter: what ``fs.Policy.of(fleet, algo, theta)`` makes.

    Parameters
    ----------
    theta : (d,) array
        The parameter.
    features : Aggregation, DenseTable or BoxMap
        phi on the worlds that it was learned in.
    improvement : Softmax, Greedy, EpsilonGreedy or FixedPolicy
        Gamma: from values to probabilities.
    numbers : (A,) array
        The actions as numbers.
    actions : (A, ...) array
        The actions as the worlds take them; only their type and shape count where they are ``drawn``.
    drawn : (low, high) or None
        Between which numbers actions are drawn afresh, where they are not fixed ones.

    Notes
    -----
    At an observation x an action is drawn from

        pi(. | x) = Gamma(Q(x, .)),  Q(x, a) = phi(x, a)'theta

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.control.fleet("CartPole", agents=2)
    >>> algo = fs.FedSARSA(fs.FourierBasis(1), fs.EpsilonGreedy(0.1), step_size=0.1)
    >>> policy = fs.Policy.of(fleet, algo, algo.train(fleet, steps=100, runs=1).final[0])
    >>> policy.values([0.0, 0.0, 0.0, 0.0]).shape
    (2,)
    """

    theta: Floats
    features: FeatureMap | BoxMap
    improvement: Improvement
    numbers: Floats
    actions: NDArray[Any]
    drawn: Floats | None = None

    @classmethod
    def of(cls, fleet: Any, algo: Any, theta: ArrayLike, greedy: bool = False) -> Policy:
        """The policy of a learned parameter.

        Parameters
        ----------
        fleet : Fleet, ControlFleet, GymFleet or sequence of FiniteMDP
            The worlds in which it was learned.
        algo : FedSARSA
            The settings with which it was learned.
        theta : (d,) array
            The parameter, such as ``history.final[0]`` or an agent's own, ``history.local[0, 3]``.
        greedy : bool
            Take the best action, ties broken as ``algo.policy`` does; otherwise act by that policy.

        Returns
        -------
        Policy
            What acts by it, and can be saved.

        Raises
        ------
        ValueError
            ``theta`` is not of the size that the features have in these worlds.
        TypeError
            ``algo`` is no FedSARSA.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> fleet, algo = fs.paper.fleet(agents=2, states=4, actions=3), fs.FedSARSA(fs.OneHot(), fs.Greedy())
        >>> theta = algo.train(fleet, steps=50, runs=1).final[0]
        >>> fs.Policy.of(fleet, algo, theta)
        Policy(d = 12, 3 actions, Greedy())
        """
        from fedsarsa.federation.spaces import any_fleet

        if not (hasattr(algo, "problem") and hasattr(algo, "policy")):
            own = "; its own policies(history) are what it has learned" if hasattr(algo, "policies") else ""
            raise TypeError(f"algo must be a FedSARSA, got {algo!r}{own}")
        problem = algo.problem(any_fleet(fleet), 1, 1, 0)
        return cls.for_problem(problem, theta, policies.greedy_as(algo.policy) if greedy else algo.policy)

    @classmethod
    def for_problem(cls, problem: Problem, theta: ArrayLike, improvement: Improvement) -> Policy:
        """The policy of a parameter in the worlds of a problem; at the end of its schedule, if it has one."""
        dim, fleet = problem.features.dim, problem.fleet
        given = _checks.labelled("theta", theta, [("d",)])
        if given.shape != (dim,):
            raise ValueError(
                f"theta must have shape ({dim},) for {problem.features!r:.80}, got {given.shape}"
            )
        drawn = np.array(problem.action_bounds) if problem.features.joint else None
        if drawn is not None:
            space = getattr(fleet, "action_space", None)
            shape, dtype = (space.shape, space.dtype) if space is not None else ((), float)
            actions = np.zeros((len(problem.candidates), *shape), dtype)
        elif isinstance(fleet, GymFleet):
            actions = np.array(fleet.actions(problem.per_number))
        else:
            actions = problem.candidates if fleet.action_count is None else np.arange(fleet.action_count)
        if isinstance(improvement, Scheduled):
            improvement = improvement.at_step(LAST)
        return cls(given, problem.features, improvement, problem.candidates, actions, drawn)

    def values(self, observation: Any) -> Floats:
        """Q(x, .) of all actions at an observation.

        Parameters
        ----------
        observation : int or array
            The number of a state in finite worlds; elsewhere the observation that the environment returns.

        Returns
        -------
        (A,) array
            Values in the order of the actions; of actions that are drawn, at even distances between the
            lowest and the highest.

        Raises
        ------
        ValueError
            The observation is not of the kind that the policy has learned with.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> fleet, algo = fs.paper.fleet(agents=2, states=4, actions=3), fs.FedSARSA(fs.OneHot(), fs.Greedy())
        >>> theta = algo.train(fleet, steps=50, runs=1).final[0]
        >>> fs.Policy.of(fleet, algo, theta).values(2).shape
        (3,)
        """
        numbers = (
            self.numbers
            if self.drawn is None
            else np.linspace(self.drawn[0], self.drawn[1], len(self.numbers))
        )
        return self.features.values_at(self.theta, self._inputs(observation), numbers)

    def act(self, observation: Any, rng: Seed = None) -> Any:
        """An action at an observation, as the world takes it.

        Parameters
        ----------
        observation : int or array
            As for ``values``.
        rng : numpy.random.Generator or int, optional
            Where chance comes from, or a seed; a fresh one unless given.

        Returns
        -------
        int, float or array
            The number of an action, or what ``env.step`` takes.

        Raises
        ------
        ValueError
            The observation is not of the kind that the policy has learned with.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> algo = fs.FedSARSA(fs.OneHot(), fs.Greedy())
        >>> fs.Policy.of(fs.paper.fleet(2, states=2, actions=2), algo, [0.0, 1.0, 0.0, 0.0]).act(0)
        1
        """
        chosen, number = self.choose(observation, np.random.default_rng(rng))
        one = self.actions[chosen]
        if self.drawn is not None:
            one = np.full(one.shape, number, one.dtype)
        return one.item() if one.ndim == 0 else copy(one)

    def choose(self, observation: Any, rng: np.random.Generator) -> tuple[int, float]:
        """Which action is chosen, and the number that it is."""
        inputs, numbers = self._inputs(observation), self.numbers
        if self.drawn is not None:
            numbers = rng.uniform(self.drawn[0], self.drawn[1], len(numbers))
        values = self.features.values_at(self.theta, inputs, numbers)
        finite = not isinstance(self.features, BoxMap)
        state = int(inputs[0]) if finite else policies.ALL
        shares = self.improvement.probabilities(values, state, self.features.classes)
        chosen = int(rng.choice(len(numbers), p=shares))
        return chosen, float(numbers[chosen])

    def _inputs(self, observation: Any) -> Floats:
        """What the features are functions of, checked."""
        expected = self.features.inputs - self.features.joint
        seen = np.ravel(np.asarray(observation, dtype=float))
        if len(seen) != expected or not np.isfinite(seen).all():
            raise ValueError(
                f"observation must be finite numbers, {expected} of them, got {observation!r:.200}"
            )
        if isinstance(self.features, BoxMap):
            return np.append(seen, 0.0) if self.features.joint else seen
        states = len(self.features.rows if isinstance(self.features, Aggregation) else self.features.table)
        if not 0 <= seen[0] < states or seen[0] != int(seen[0]):
            raise ValueError(f"observation must be a state from 0 to {states - 1}, got {observation!r}")
        return seen

    def save(self, path: str | Path) -> None:
        """Write the policy to one small file; a killed process leaves no half file under this name.

        Parameters
        ----------
        path : str or Path
            Where to; what is there is replaced.

        Raises
        ------
        OSError
            It cannot be written.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import fedsarsa as fs
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "policy.npz"
        >>> algo = fs.FedSARSA(fs.OneHot(), fs.Greedy())
        >>> fs.Policy.of(fs.paper.fleet(2, states=2, actions=2), algo, [0.0, 1.0, 0.0, 0.0]).save(path)
        >>> fs.Policy.load(path).act(0)
        1
        """
        arrays: _npz.Arrays = {}
        about = {name: _told(getattr(self, name), name, arrays) for name in _names(type(self))}
        _npz.save(Path(path), KIND, {"format": 1, "policy": about}, arrays)

    @classmethod
    def load(cls, path: str | Path, function: Callable[[Floats], ArrayLike] | None = None) -> Policy:
        """Read a policy that ``save`` wrote. It needs no fleet, and no compiler.

        Parameters
        ----------
        path : str or Path
            The file.
        function : callable, optional
            The features, where they are a function of your own: code is not saved. It must give what it gave
            when the policy was saved.

        Returns
        -------
        Policy
            What acts as the saved one did.

        Raises
        ------
        FileNotFoundError
            There is none.
        ValueError
            It is damaged, is something else, or has features of another function.

        Examples
        --------
        See `save`.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file; expected a fedsarsa {KIND}")
        about, arrays = _npz.load(path, KIND)
        try:
            if about.get("format") != 1:
                raise ValueError(f"format {about.get('format')!r}, where 1 is known")
            told = about["policy"]
            made = cls(**{name: _made(told[name], name, arrays, function) for name in _names(cls)})
            if made.theta.shape != (made.features.dim,) or len(made.actions) != len(made.numbers):
                raise ValueError("a parameter of another size than its features")
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise ValueError(f"{path}: expected a fedsarsa {KIND}, got: {error}") from None
        return made

    def __repr__(self) -> str:
        return f"Policy(d = {len(self.theta)}, {len(self.actions)} actions, {self.improvement!r})"


# What a file may describe, by name.
KNOWN: dict[str, Any] = {
    kind.__name__: kind for kind in (Aggregation, DenseTable, BoxMap, *BASES, *policies.POLICIES.values())
}


def _names(kind: Any) -> list[str]:
    """The arguments of which objects of a kind are made."""
    return ["pi"] if kind is policies.FixedPolicy else [field.name for field in fields(kind)]


def _told(value: Any, name: str, arrays: _npz.Arrays) -> Any:
    """A value as JSON; arrays go into ``arrays``, and functions do not go anywhere."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if type(value).__name__ in KNOWN:
        parts = {one: _told(getattr(value, one), f"{name}.{one}", arrays) for one in _names(type(value))}
        if isinstance(value, FunctionBasis):
            arrays[f"{name}.values"] = value.probed()
        return {"kind": type(value).__name__, "parts": parts}
    return None if callable(value) else value


def _made(told: Any, name: str, arrays: _npz.Arrays, function: Any) -> Any:
    """The value that `_told` has told."""
    if not isinstance(told, dict):
        return told
    if "array" in told:
        return arrays[told["array"]]
    kind = KNOWN[told["kind"]]
    parts = {one: _made(told["parts"][one], f"{name}.{one}", arrays, function) for one in _names(kind)}
    if kind is FunctionBasis:
        return _with_function(parts, arrays[f"{name}.values"], function)
    return kind(**parts)


def _with_function(parts: dict[str, Any], values: Floats, function: Any) -> FunctionBasis:
    """The basis of a function that is given anew, if it is the one that was saved."""
    if function is None:
        raise ValueError("features of a function of your own; give it as function=")
    basis = FunctionBasis(**parts | {"function": function})
    if not np.allclose(basis.probed(), values, rtol=1e-6, atol=1e-9):
        raise ValueError("features of another function than the one given")
    return basis
