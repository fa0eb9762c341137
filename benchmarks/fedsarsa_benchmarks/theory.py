"""How fast theory is: what a user waits for before training."""

import warnings

import fedsarsa as fs
from fedsarsa_benchmarks.measuring import Result, at_most, seconds


def measure(quick: bool = False) -> list[Result]:
    """Constants, fixed points and prediction of the published setting, and personal weights in it."""
    agents = 10 if quick else 40
    fleet, algo = fs.paper.fleet(agents), fs.FedSARSA()

    def everything() -> None:
        with warnings.catch_warnings(action="ignore"):  # that the published setting is outside the theory
            fs.theory.constants(fleet, algo)
            for world in fleet.worlds:
                fs.theory.fixed_point(world, algo.features, algo.policy)
            fs.theory.predict(fleet, algo, 20_000)

    different = fs.paper.fleet(agents // 2, 0.5, 0.5)

    def personal() -> None:
        fs.theory.personal_weights(different, algo, 20_000)

    return [
        at_most(f"constants, fixed points and prediction, {agents} agents", seconds(everything, 2), " s", 5),
        at_most(f"personal weights, {len(different)} agents", seconds(personal, 2), " s", 2),
    ]
