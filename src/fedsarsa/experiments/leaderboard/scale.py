"""How much the leaderboard trains: budgets, runs and the grids that settings are chosen from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The size of a leaderboard.

    Attributes
    ----------
    control_steps, prediction_steps : int
        Samples per agent of the two boards.
    planning_steps : int
        Sweeps over their tables of methods that know the worlds.
    runs, tuning_runs : int
        Runs that are reported, and others on which settings are chosen. With few of these, what is chosen
        among many settings is the luckiest.
    step_sizes, temperatures : tuple of float
        The grids, the same for all methods, of which a method tries what it takes; temperatures are in units
        of the spread of rewards, for methods that act by what they learn.
    starts : int
        Of the search for the best common policy.
    """

    control_steps: int
    prediction_steps: int
    planning_steps: int
    runs: int
    tuning_runs: int
    step_sizes: tuple[float, ...]
    temperatures: tuple[float, ...]
    starts: int


STEPS = (0.0005, 0.002, 0.01, 0.05, 0.2, 0.9, 4.0, 20.0)  # above 1 for methods that move seldom, or plan
TEMPERATURES = (0.006, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
FULL = Scale(10_000, 3_000, 256, 20, 20, STEPS, TEMPERATURES, 4)
QUICK = Scale(400, 200, 32, 10, 5, (0.1, 0.3), (0.1,), 2)
QUICK_FLEETS = ("random-0.4", "two-state", "seven-states")
