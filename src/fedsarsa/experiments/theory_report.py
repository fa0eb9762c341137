"""Theory as tables: what a fleet and an algorithm are, what the paper promises, what to expect."""

import math
import warnings

import numpy as np
from rich.console import Console
from rich.table import Column, Table

from fedsarsa import theory
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.paper_labels import in_print
from fedsarsa.theory.paper_bounds import Bounds
from fedsarsa.theory.paper_constants import Constants
from fedsarsa.theory.prediction import Prediction
from fedsarsa.worlds.fleet import Fleet

# Shares of the training at which the predicted curve is shown.
MOMENTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

LETTERS = {
    "eps_p": "kernel heterogeneity, measured",
    "eps_r": "reward heterogeneity, measured",
    "R": "reward cap",
    "m": "mixing, any policy: distance at most m rho^t",
    "rho": "mixing, any policy",
    "rate": "mixing rate under the fixed points' own policies",
    "sigma": "sensitivity of stationary distributions",
    "L": "Lipschitz constant of the policy",
    "lam": "smallest eigenvalue of Phi = E(phi phi') (exploration)",
    "w": "contraction rate",
    "G": "bound of the parameters' norm",
    "H": "bound of a semi-gradient's norm",
    "Lambda": "heterogeneity of semi-gradients",
    "tau": "backtracking period",
    "beta": "constant of Young's inequality",
    "C_drift": "client drift",
    "C_prog": "parameter progress",
    "C_back": "backtracking",
    "C_var": "gradient variance",
    "C_1": "heterogeneity in Theorem 2",
    "C_2": "noise / N in Theorem 2",
    "C_3": "third order in Theorem 2",
    "C_4": "fourth order in Theorem 2",
    "B": "squared radius of the ball in the corollary on constant steps",
}


def show(console: Console, fleet: Fleet, algo: FedSARSA, steps: int) -> None:
    """Print assumptions, constants, bounds and the prediction for a training of ``steps`` steps.

    Raises
    ------
    ValueError
        There are neither bounds nor a prediction.
    """
    unbounded = None
    try:
        with warnings.catch_warnings(action="ignore"):  # what they say stands in the tables
            show_bounds(console, theory.bounds(fleet, algo, steps))
    except ValueError as error:
        unbounded = error
    try:
        with warnings.catch_warnings(action="ignore"):  # shown below
            prediction = theory.predict(fleet, algo, steps)
    except ValueError as error:
        if unbounded is not None:
            raise
        console.print(f"no prediction: {error}", markup=False)
        return
    if unbounded is not None:
        console.print(f"no bounds: {unbounded}", markup=False)
    console.print(prediction_table(prediction))
    console.print(f"the error ends at {prediction.floor:.4g}, of which bias {prediction.bias:.4g}")
    if len(prediction.other_roots):
        here = _vector(prediction.federated_point)
        console.print(f"the mean path from 0 leads to the attracting root {here}; others are", markup=False)
        for root in prediction.other_roots:
            console.print(f"  {_vector(root)}", markup=False)
    for note in prediction.warnings:
        console.print(f"warning: {note}", markup=False)


def show_bounds(console: Console, bounds: Bounds) -> None:
    """Print the paper's assumptions, constants and bounds."""
    console.print(assumptions_table(bounds.constants))
    console.print(constants_table(bounds.constants))
    console.print(bounds_table(bounds))
    if bounds.federated is not None and bounds.constants.theta_star is not None:
        apart = np.linalg.norm(bounds.federated - bounds.constants.theta_star)
        console.print(f"distance of the federated point from the central fixed point: {apart:.4g}")


def assumptions_table(constants: Constants) -> Table:
    """Which conditions of the theory hold, and by how much."""
    table = _table("What the theory asks", "condition", *map(_right, ("value", "limit", "holds", "room")))
    for condition in constants.conditions:
        holds = ("yes" if condition.holds else "no") if condition.needed else "(not needed)"
        table.add_row(
            condition.name,
            _number(condition.value),
            f"above {_number(condition.limit)}" if condition.above else _number(condition.limit),
            holds,
            _number(condition.margin),
        )
    return table


def constants_table(constants: Constants) -> Table:
    """The paper's constants by their letters."""
    table = _table("Constants of the paper", "constant", _right("value"), "meaning")
    values = constants.scalars()
    for letter, meaning in LETTERS.items():
        table.add_row(letter, _number(values[letter]), meaning)
    return table


def bounds_table(bounds: Bounds) -> Table:
    """Every bound beside the exact value, where there is one."""
    table = _table("Bounds", "inequality", *map(_right, ("exact", "bound", "applies")), "why")
    for row in bounds:
        exact = "" if row.exact is None else _number(row.exact)
        applies = "yes" if row.applies else "no"
        reason = in_print(row.reason, lambda _, name: name)
        table.add_row(in_print(row.name), exact, _number(row.bound), applies, reason)
    return table


def prediction_table(prediction: Prediction) -> Table:
    """The error to expect along the training, and what it is made of."""
    names = ("t", "mse", "transient", "bias", "variance")
    table = _table("Mean squared error to expect", *map(_right, names))
    last = prediction.data.sizes["t"] - 1
    for place in sorted({round(share * last) for share in MOMENTS}):
        at = prediction.data.isel(t=place).assign(bias=prediction.bias)
        table.add_row(str(int(at["t"])), *(_number(float(at[name])) for name in names[1:]))
    return table


def _table(title: str, *columns: Column | str) -> Table:
    return Table(*columns, title=title, title_justify="left")


def _right(name: str) -> Column:
    return Column(name, justify="right")


def _vector(theta: Floats) -> str:
    return np.array2string(theta, precision=4, threshold=6, separator=", ")


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "infinite" if math.isinf(value) else f"{value:.4g}"
