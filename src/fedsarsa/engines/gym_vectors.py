"""Gymnasium's vector environments: many agents' environments behind one ``step``."""

import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsarsa.engines.gym_environments import LATER, Failure, close_all
from fedsarsa.worlds.gym import GymWorld


class Vectors:
    """One vector environment for all agents with the same id and options, as their authors wrote it.

    Such environments begin an episode with the step after the one that ended the last (Gymnasium's mode
    NEXT_STEP): a reset is answered with ``LATER``, and the next step with the episode's first observation.
    """

    def __init__(self, worlds: Sequence[GymWorld]) -> None:
        alike: dict[str, list[int]] = {}
        for lane, world in enumerate(worlds):
            alike.setdefault(world.constructor, []).append(lane)
        self.groups = list(alike.values())
        self.place = {lane: (g, k) for g, group in enumerate(self.groups) for k, lane in enumerate(group)}
        self.environments: list[Any] = []
        try:
            for group in self.groups:
                self.environments.append(worlds[group[0]].make_vector(len(group)))
        except BaseException:
            self.close()
            raise
        # Environments of agents that have stopped continue, with the action they had.
        self.actions: list[list[Any]] = [[] for _ in self.groups]

    def reset(self, lanes: Sequence[int], seeds: Sequence[int | None]) -> list[Any]:
        """First observations: now if there are seeds, one of which seeds a group; later if not."""
        if not lanes or seeds[0] is None:
            return [LATER] * len(lanes)
        seed_of = dict(zip(lanes, seeds, strict=True))
        answers: list[Any] = []
        for environment, group in zip(self.environments, self.groups, strict=True):
            chosen = next((seed_of[lane] for lane in group if lane in seed_of), None)
            try:
                rows, _ = environment.reset(seed=chosen)
                answers.append(_each(group, rows))
            except Exception:
                answers.append(Failure(traceback.format_exc()))
        return [self._part(answers, lane) for lane in lanes]

    def _part(self, answers: list[Any], lane: int) -> Any:
        g, k = self.place[lane]
        return answers[g] if isinstance(answers[g], Failure) else answers[g][k]

    def step(self, lanes: Sequence[int], actions: Sequence[Any]) -> list[Any]:
        """What every agent's environment answered."""
        asked = {self.place[lane][0] for lane in lanes}
        for g in asked:
            self.actions[g] = self.actions[g] or [actions[0]] * len(self.groups[g])
        for lane, action in zip(lanes, actions, strict=True):
            g, k = self.place[lane]
            self.actions[g][k] = action
        answers: list[Any] = [None] * len(self.groups)
        for g in asked:
            environment = self.environments[g]
            try:
                chosen = np.array(self.actions[g], environment.single_action_space.dtype)
                *rows, _ = environment.step(chosen)
                each = zip(*(_each(self.groups[g], row) for row in rows), strict=True)
                answers[g] = [(*row, None) for row in each]
            except Exception:
                answers[g] = Failure(traceback.format_exc())
        return [self._part(answers, lane) for lane in lanes]

    def close(self) -> None:
        """Close all environments."""
        close_all(self.environments)
        self.environments = []


def _each(group: list[int], rows: Any) -> Any:
    """Rows, one for every agent of a group."""
    if len(rows) != len(group):
        raise ValueError(f"a vector environment of {len(group)} must answer as many rows, got {len(rows)}")
    return rows
