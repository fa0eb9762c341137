"""Does federating help in control worlds? The numbers and figures of docs/study.md, with one command:

    python examples/control-study.py --docs docs

Sixteen agents are trained alone, in four groups of four, together, and together with 48 more, for three
levels of heterogeneity; then each goes on alone from what the sixteen learned (personalisation). Whatever the
group, returns are those of the same sixteen agents.
"""

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

import fedsarsa as fs
from fedsarsa import _files
from fedsarsa.experiments import config, learning_curves

HERE = Path(__file__).parent
GOALS = {"cart-pole": 400, "mountain-car": -150, "acrobot": -120}
LEVELS = (0.1, 0.3, 0.5)
SIZES = (1, 4, 16, 64)
AGENTS = 16
BINS = 100
BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"


def curve(histories):
    """Mean over the sixteen agents, and over runs, of an agent's mean return in each bin of time."""
    each = [learning_curves.coarse(h, BINS).isel(agent=slice(0, AGENTS)) for h in histories]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # bins in which no episode ended have no mean
        return np.nanmean(np.concatenate([one.values for one in each], axis=1), axis=(0, 1))


def worth(fleet, algo, theta):
    """Mean greedy return of each agent, (N,)."""
    return fs.rollouts(fleet, algo, theta, episodes=50).mean_return.values


def study(name, level, steps, runs):
    settings = config.load(HERE / f"{name}.toml")
    section = settings.fleet.model_copy(update={"spread": level, "agents": max(SIZES)})
    everyone, together = section.build(HERE), settings.algorithm.build()
    alone = replace(together, sync_every=None)
    options = {"steps": steps, "runs": runs, "record_every": 10**9}
    result = {"level": level, "curves": {}, "returns": {}}
    sixteen = everyone[:AGENTS]
    locals_ = {}
    for size in SIZES:
        if size == 1:
            histories = [alone.train(sixteen, **options)]
            locals_[1] = histories[0].local.values
        elif size < AGENTS:
            groups = [everyone[low : low + size] for low in range(0, AGENTS, size)]
            histories = [together.train(group, **options) for group in groups]
            finals = [np.repeat(h.final.values[:, None], size, axis=1) for h in histories]
            locals_[size] = np.concatenate(finals, axis=1)
        else:
            histories = [together.train(everyone[:size], **options)]
            locals_[size] = np.repeat(histories[0].final.values[:, None], AGENTS, axis=1)
        result["curves"][size] = curve(histories).tolist()
        t = learning_curves.coarse(histories[0], BINS)["t"].values
    more = {"steps": steps // 5, "runs": runs, "record_every": 10**9, "seed": 1}
    locals_["personal"] = alone.train(sixteen, theta0=locals_[16], **more).local.values
    locals_["alone, longer"] = alone.train(sixteen, theta0=locals_[1], **more).local.values
    for key, theta in locals_.items():
        each = np.mean([worth(sixteen, together, theta[run]) for run in range(runs)], axis=0)
        result["returns"][key] = each.tolist()
    result["t"] = t.tolist()
    return result


def reached(result, size, goal):
    """Steps per agent until the mean return has reached the goal in two bins of time in a row."""
    above = np.array(result["curves"][size]) >= goal
    hit = np.flatnonzero(above[1:] & above[:-1])
    return f"{result['t'][hit[0]]:,}".replace(",", " ") if len(hit) else "not reached"


def figure(name, results):
    drawn = Figure(figsize=(9.6, 3.2), layout="constrained")
    shades = colormaps["viridis"](np.linspace(0.85, 0.0, len(SIZES)))
    for axes, result in zip(drawn.subplots(1, len(results), sharey=True), results, strict=True):
        for size, shade in zip(SIZES, shades, strict=True):
            axes.plot(
                np.array(result["t"]) / 1000,
                result["curves"][size],
                color=shade,
                linewidth=1.2,
                label=f"N = {size}",
            )
        axes.axhline(GOALS[name], color="0.5", linewidth=0.6, linestyle="--")
        axes.set_title(f"physics differ by {result['level']:.0%}", fontsize="small")
        axes.set_xlabel("thousand steps per agent")
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.margins(x=0)
    drawn.axes[0].set_ylabel("return of an episode")
    drawn.axes[0].legend(frameon=False, fontsize="x-small")
    return drawn


def table(name, results):
    lines = [
        f"### {name}, goal {GOALS[name]}",
        "",
        f"![{name}: return against steps per agent](study/{name}.png)",
        "",
        "| physics differ by | N | steps to the goal | return at the end | agents better off than alone |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        alone = np.array(result["returns"][1])
        for size in SIZES:
            own = np.array(result["returns"][size])
            share = "" if size == 1 else f"{np.mean(own > alone):.0%}"
            steps = reached(result, size, GOALS[name])
            lines.append(f"| {result['level']:.0%} | {size} | {steps} | {own.mean():.0f} | {share} |")
        for key, label in (("alone, longer", "1, a fifth longer"), ("personal", "16, then a fifth alone")):
            own, base = np.array(result["returns"][key]), np.array(result["returns"]["alone, longer"])
            share = f"{np.mean(own > base):.0%}" if key == "personal" else ""
            lines.append(f"| {result['level']:.0%} | {label} | | {own.mean():.0f} | {share} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--worlds", nargs="*", default=list(GOALS))
    arguments = parser.parse_args()
    folder = _files.writable_directory(arguments.docs / "study")
    tables = []
    for name in arguments.worlds:
        results = []
        for level in LEVELS:
            begun = time.perf_counter()
            results.append(study(name, level, arguments.steps, arguments.runs))
            print(f"{name}, {level:.0%}: {time.perf_counter() - begun:.0f} s", flush=True)
        with _files.replacing(folder / f"{name}.png") as temporary:
            figure(name, results).savefig(temporary, format="png", dpi=150)
        tables.append(table(name, results))
    page = arguments.docs / "study.md"
    before, _, rest = page.read_text().partition(BEGIN)
    with _files.replacing(page) as temporary:
        numbers = f"{BEGIN}\n\n" + "\n\n".join(tables) + f"\n\n{END}"
        temporary.write_text(before + numbers + rest.partition(END)[2])


if __name__ == "__main__":
    main()
