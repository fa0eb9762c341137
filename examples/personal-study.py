"""Whom should an agent listen to in control worlds? The numbers and the figure of docs/personal.md:

    python examples/personal-study.py --docs docs

The sixteen carts, cars and acrobots of examples/control-study.py learn alone, together, in four coalitions of
similar physics, and with personal mixtures. A seed draws the agents' physics and all random numbers;
intervals are over seeds, and differences are taken seed by seed. Every cell is kept in a folder, so an
interrupted study resumes where it was; ``--table`` draws what is there.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import fcluster, ward

import fedsarsa as fs
from fedsarsa import _files
from fedsarsa.experiments import config
from fedsarsa.experiments.statistics import mean_and_margin

HERE = Path(__file__).parent
WORLDS = ("cart-pole", "mountain-car", "acrobot")
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
AGENTS = 16
COALITIONS = 4
EPISODES = 50
ALONE, TOGETHER, GROUPS = "alone", "together", "coalitions"
PERSONAL, VISITS, ACTING = "personal", "by visits", "by visits, acting by it"
SHADES = {TOGETHER: "0.5", GROUPS: "tab:brown", PERSONAL: "tab:green", VISITS: "tab:blue", ACTING: "tab:red"}
BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"


def coalitions(fleet):
    """Four groups of agents of similar physics: Ward's tree, every quantity in units of its spread."""
    physics = np.array([[getattr(world, name) for name in world.varied] for world in fleet])
    labels = fcluster(ward(physics / physics.std(axis=0)), COALITIONS, "maxclust")
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def study(name, level, seed, steps):
    """Greedy returns of every agent, by the way in which it learned, and agents' weight of their own."""
    settings = config.load(HERE / f"{name}.toml")
    section = settings.fleet.model_copy(update={"spread": level, "agents": AGENTS, "seed": seed})
    fleet, together = section.build(HERE), settings.algorithm.build()
    options = {"runs": 1, "seed": seed, "record_every": steps // together.sync_every}

    def trained(rule):
        return replace(together, server=rule).train(fleet, steps, **options)

    own, seen = trained(fs.servers.Personal()), trained(fs.servers.Personal(visits=True))
    acting = trained(fs.servers.Personal("mixture", visits=True))
    thetas = {
        ALONE: own.local[0].values,
        TOGETHER: np.repeat(together.train(fleet, steps, **options).final.values, AGENTS, axis=0),
        PERSONAL: own.personal[0, -1].values,
        VISITS: seen.personal[0, -1].values,
        ACTING: acting.personal[0, -1].values,
    }

    def played(worlds, theta):
        return fs.rollouts(worlds, together, theta, episodes=EPISODES, seed=seed).mean_return.values

    returns = {way: played(fleet, theta).tolist() for way, theta in thetas.items()}
    returns[GROUPS] = [0.0] * AGENTS
    for group in coalitions(fleet):  # a fleet of its own: tiles cover what the agents of a fleet may see
        part = fs.control.ControlFleet([fleet[agent] for agent in group], fleet.discount)
        shared = together.train(part, steps, **options).final.values[0]
        for agent, gained in zip(group, played(part, shared), strict=True):
            returns[GROUPS][agent] = float(gained)
    histories = {PERSONAL: own, VISITS: seen, ACTING: acting}
    kept = {way: float(np.diag(h.weights[0, -1]).mean()) for way, h in histories.items()}
    return {"returns": returns, "own": kept}


def cells(folder, name, level, seeds):
    """What is there of a world and a level: returns (run, way, agent), mean weights of the own (run, way)."""
    paths = [folder / f"{name}-{level:g}-{seed}.json" for seed in range(seeds)]
    found = [json.loads(path.read_text()) for path in paths if path.exists()]
    ways, mixed = [ALONE, *SHADES], [PERSONAL, VISITS, ACTING]
    returns = np.array([[cell["returns"][way] for way in ways] for cell in found])
    kept = np.array([[cell["own"][way] for way in mixed] for cell in found])
    return (
        xr.DataArray(
            returns.reshape(len(found), len(ways), AGENTS), dims=("run", "way", "agent"), coords={"way": ways}
        ),
        xr.DataArray(kept.reshape(len(found), len(mixed)), dims=("run", "way"), coords={"way": mixed}),
    )


def gain(returns, way):
    """How much better the agents end than alone: mean over seeds and 95% margin."""
    mean, margin = mean_and_margin((returns.sel(way=way) - returns.sel(way=ALONE)).mean("agent"))
    return float(mean), float(margin)


def interval(mean, margin, sign=""):
    digits = 0 if margin >= 10 else 1
    return f"{mean:{sign}.{digits}f} ± {margin:.{digits}f}"


def figure(results):
    """The gain over learning alone against the level, a panel per world."""
    drawn = Figure(figsize=(9.6, 3.4), layout="constrained")
    panels = np.atleast_1d(drawn.subplots(1, len(results)))
    for axes, (name, levels) in zip(panels, results.items(), strict=True):
        for k, (way, shade) in enumerate(SHADES.items()):
            gains = np.array([gain(returns, way) for returns, _ in levels.values()])
            x = 100 * np.array(list(levels)) + 1.4 * (k - 2)  # side by side: bars would hide each other
            axes.errorbar(
                x, gains[:, 0], gains[:, 1], color=shade, marker="o", markersize=3, linewidth=1.2, capsize=2,
                label=way,
            )  # fmt: skip
        axes.axhline(0, color="0.3", linewidth=0.7)
        axes.set_title(name, fontsize="small")
        axes.set_xlabel("physics differ by, %", fontsize="small")
        axes.set_xticks([round(100 * level) for level in levels])
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.tick_params(labelsize="small")
    panels[0].set_ylabel("return, better than alone by", fontsize="small")
    panels[0].legend(frameon=False, fontsize="x-small")
    return drawn


def table(results):
    """The numbers in Markdown."""
    lines = [
        "![Return over that of learning alone, against how much physics differ](study/personal.png)",
        "",
        f"| world, level | seeds | {ALONE} | {' | '.join(SHADES)} | weight of the own |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, levels in results.items():
        for level, (returns, kept) in levels.items():
            alone = interval(*map(float, mean_and_margin(returns.sel(way=ALONE).mean("agent"))))
            gains = [interval(*gain(returns, way), "+") for way in SHADES]
            own = " / ".join(f"{float(one):.2f}" for one in kept.mean("run"))
            seeds = returns.sizes["run"]
            lines.append(f"| {name}, {level:.0%} | {seeds} | {alone} | {' | '.join(gains)} | {own} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--cells", type=Path, default=Path("personal-study"))
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS))
    parser.add_argument("--levels", nargs="*", type=float, default=list(LEVELS))
    parser.add_argument("--table", action="store_true", help="draw what is there, and train nothing")
    arguments = parser.parse_args()
    page = arguments.docs / "personal.md"
    before, _, rest = page.read_text().partition(BEGIN)  # first: a page that is not there costs no study
    folder = _files.writable_directory(arguments.cells)
    # Seeds first: an interrupted study has whole seeds of everything.
    todo = [(n, x, s) for s in range(arguments.seeds) for x in arguments.levels for n in arguments.worlds]
    for number, (name, level, seed) in enumerate([] if arguments.table else todo):
        path, begun = folder / f"{name}-{level:g}-{seed}.json", time.perf_counter()
        if path.exists():
            continue
        with _files.replacing(path) as temporary:
            temporary.write_text(json.dumps(study(name, level, seed, arguments.steps)))
        seconds = time.perf_counter() - begun
        print(f"{number + 1} of {len(todo)}: {name}, {level:.0%}, seed {seed}: {seconds:.0f} s", flush=True)
    results = {}
    for name in arguments.worlds:
        found = {level: cells(folder, name, level, arguments.seeds) for level in arguments.levels}
        # An interval needs two seeds.
        results[name] = {level: (got, own) for level, (got, own) in found.items() if got.sizes["run"] > 1}
    pictures = _files.writable_directory(arguments.docs / "study")
    with _files.replacing(pictures / "personal.png") as temporary:
        figure(results).savefig(temporary, format="png", dpi=150)
    with _files.replacing(page) as temporary:
        numbers = f"{BEGIN}\n\n{table(results)}\n\n{END}"
        temporary.write_text(before + numbers + rest.partition(END)[2])


if __name__ == "__main__":
    main()
