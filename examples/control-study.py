"""Does federating help in control worlds? The numbers and figures of docs/study.md, with one command:

    python examples/control-study.py --docs docs

Sixteen agents are trained alone, in four groups of four, together, and together with 48 more, for five
levels of heterogeneity; then each trains on alone from what the sixteen learned (personalisation). Whatever
the group, returns are those of the same sixteen agents. A seed draws the agents' physics and all random
numbers; intervals are over seeds, and differences are taken seed by seed.
"""

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.figure import Figure

import fedsarsa as fs
from fedsarsa import _files
from fedsarsa.experiments import config
from fedsarsa.experiments.statistics import mean_and_margin

HERE = Path(__file__).parent
GOALS = {"cart-pole": 400, "mountain-car": -150, "acrobot": -120}
# An agent whose best return is no better than this never learned: its pole falls at once, or time runs out.
NOWHERE = {"cart-pole": 50, "mountain-car": -200, "acrobot": -500}
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)  # 100% would leave no gravity, or no cart
SIZES = (1, 4, 16, 64)
AGENTS = 16
PERSONAL, LONGER = "16, then a fifth alone", "1, a fifth longer"
BINS = 50
BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"


def curve(histories):
    """Mean over the sixteen agents of an agent's mean return in each bin of time, (run, t)."""
    each = xr.concat([h.learning_curve(bins=BINS) for h in histories], "agent", join="override")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # bins in which no episode ended have no mean
        return each.isel(agent=slice(0, AGENTS)).mean("agent")


def study(name, level, seed, steps):
    """Curves (run, t) by N, and greedy returns (run, agent) by N and way of continuing, of one seed."""
    settings = config.load(HERE / f"{name}.toml")
    section = settings.fleet.model_copy(update={"spread": level, "agents": max(SIZES), "seed": seed})
    everyone, together = section.build(HERE), settings.algorithm.build()
    alone = replace(together, sync_every=None)
    options = {"runs": 1, "seed": seed, "record_every": 10**9}
    sixteen = everyone[:AGENTS]
    curves, thetas = {}, {}
    for size in SIZES:
        if size == 1:
            histories = [alone.train(sixteen, steps, **options)]
            thetas[size] = histories[0].local.values
        else:
            groups = [everyone[low : low + size] for low in range(0, AGENTS, size)]
            histories = [together.train(group, steps, **options) for group in groups]
            finals = [np.repeat(h.final.values[:, None], size, axis=1) for h in histories]
            thetas[size] = np.concatenate(finals, axis=1)[:, :AGENTS]
        curves[size] = curve(histories)
    more = options | {"seed": seed + 1000}
    for key, start in ((PERSONAL, thetas[AGENTS]), (LONGER, thetas[1])):
        thetas[key] = alone.train(sixteen, steps // 5, theta0=start, **more).local.values
    returns = {
        key: fs.rollouts(sixteen, together, theta[0], episodes=50, seed=seed).mean_return.expand_dims("run")
        for key, theta in thetas.items()
    }
    return curves, returns


def level_of(name, level, seeds, steps):
    """The same over all seeds: curves {N: (run, t)} and returns {N or way: (run, agent)}."""
    parts = [study(name, level, seed, steps) for seed in range(seeds)]
    return tuple(
        {key: xr.concat([part[which][key] for part in parts], "run") for key in parts[0][which]}
        for which in (0, 1)
    )


def gain(returns, key, base):
    """How much better the sixteen end by ``key`` than by ``base``: mean over seeds and 95% margin."""
    mean, margin = mean_and_margin((returns[key] - returns[base]).mean("agent"))
    return float(mean), float(margin)


def interval(mean, margin, sign=""):
    digits = 0 if margin >= 10 else 1
    return f"{mean:{sign}.{digits}f} ± {margin:.{digits}f}"


def verdict(mean, margin):
    return "helps" if mean > margin else "hurts" if mean < -margin else "open"


def reached(curves, goal):
    """Steps per agent until the mean return has reached the goal in two bins of time in a row."""
    steps = []
    for own in curves.values:
        hit = np.flatnonzero((own[1:] >= goal) & (own[:-1] >= goal))
        steps += [float(curves["t"][hit[0]])] if len(hit) else []
    if len(steps) < len(curves):
        return f"in {len(steps)} of {len(curves)} seeds"
    mean, margin = mean_and_margin(xr.DataArray(steps, dims="run"))
    return f"{mean / 1000:.0f} ± {margin / 1000:.0f} thousand"


def figure(name, results):
    """Learning curves, a panel per level, and the gain over learning alone against the level."""
    drawn = Figure(figsize=(9.6, 5.6), layout="constrained")
    panels = drawn.subplots(2, 3).flat
    shades = dict(zip(SIZES, colormaps["viridis"](np.linspace(0.88, 0.0, len(SIZES))), strict=True))
    means = [one.mean("run") for curves, _ in results.values() for one in curves.values()]
    low, high = (float(end) for end in (min(m.min() for m in means), max(m.max() for m in means)))
    for axes, (level, (curves, _)) in zip(panels, results.items(), strict=False):
        for size, shade in shades.items():
            mean, margin = mean_and_margin(curves[size])
            t = curves[size]["t"] / 1000
            axes.plot(t, mean, color=shade, linewidth=1.3, label=f"N = {size}")
            axes.fill_between(t, mean - margin, mean + margin, color=shade, alpha=0.2, linewidth=0)
        axes.axhline(GOALS[name], color="0.4", linewidth=0.7, linestyle="--")
        axes.set_title(f"physics differ by {level:.0%}", fontsize="small")
        axes.set_ylim(low - 0.03 * (high - low), high + 0.05 * (high - low))
        axes.set_xlabel("thousand steps per agent", fontsize="small")
        axes.margins(x=0)
    last = panels[len(results)]
    ways = [(size, 1, shade, "-", f"N = {size}") for size, shade in shades.items() if size > 1]
    ways.append((PERSONAL, LONGER, "tab:red", ":", "16, then alone"))
    for k, (key, base, shade, line, label) in enumerate(ways):
        gains = np.array([gain(returns, key, base) for _, returns in results.values()])
        x = 100 * np.array(list(results)) + 1.2 * (k - 1.5)  # side by side: bars would hide each other
        last.errorbar(
            x, gains[:, 0], gains[:, 1], color=shade, linestyle=line, marker="o", markersize=3,
            linewidth=1.2, capsize=2, label=label,
        )  # fmt: skip
    last.axhline(0, color="0.4", linewidth=0.7)
    last.set_title("better than alone in the end by", fontsize="small")
    last.set_xlabel("physics differ by, %", fontsize="small")
    last.set_xticks([round(100 * level) for level in results])
    for axes in drawn.axes:
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.tick_params(labelsize="small")
    for axes in (drawn.axes[0], drawn.axes[3]):
        axes.set_ylabel("return of an episode", fontsize="small")
    drawn.axes[0].legend(frameon=False, fontsize="x-small", loc="lower right")
    last.legend(frameon=False, fontsize="x-small")
    return drawn


def tables(name, results):
    """The numbers of a world in Markdown."""
    lost = []
    for level, (_, returns) in results.items():
        best = xr.concat(returns.values(), "way").max("way")
        lost.append(f"{float((best <= NOWHERE[name]).mean()):.0%} at {level:.0%}")
    shares = ", ".join(lost)
    lines = [
        f"### {name}, goal {GOALS[name]}",
        "",
        f"![{name}: return against steps per agent, and gain over learning alone](study/{name}.png)",
        "",
        f"Agents that never learned (a return of at most {NOWHERE[name]}) under any scheme: {shares}.",
        "",
        "| physics | N | steps to the goal | return at the end | against alone | verdict | better off |",
        "|---|---|---|---|---|---|---|",
    ]
    for level, (curves, returns) in results.items():
        for size in SIZES:
            cells = [f"{level:.0%}", str(size), reached(curves[size], GOALS[name])]
            cells.append(interval(*map(float, mean_and_margin(returns[size].mean("agent")))))
            if size > 1:
                found = gain(returns, size, 1)
                better = float((returns[size] > returns[1]).mean())
                cells += [interval(*found, "+"), verdict(*found), f"{better:.0%}"]
            else:
                cells += ["", "", ""]
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"| physics | {LONGER} | {PERSONAL} | against {LONGER} | against 16 as they were |",
        "|---|---|---|---|---|",
    ]
    for level, (_, returns) in results.items():
        cells = [f"{level:.0%}"]
        for key in (LONGER, PERSONAL):
            cells.append(interval(*map(float, mean_and_margin(returns[key].mean("agent")))))
        for base in (LONGER, AGENTS):
            found = gain(returns, PERSONAL, base)
            cells.append(f"{interval(*found, '+')}, {verdict(*found)}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--worlds", nargs="*", default=list(GOALS))
    arguments = parser.parse_args()
    page = arguments.docs / "study.md"
    before, _, rest = page.read_text().partition(BEGIN)  # first: a page that is not there costs no study
    folder = _files.writable_directory(arguments.docs / "study")
    sections = []
    for name in arguments.worlds:
        results = {}
        for level in LEVELS:
            begun = time.perf_counter()
            results[level] = level_of(name, level, arguments.seeds, arguments.steps)
            print(f"{name}, {level:.0%}: {time.perf_counter() - begun:.0f} s", flush=True)
        with _files.replacing(folder / f"{name}.png") as temporary:
            figure(name, results).savefig(temporary, format="png", dpi=150)
        sections.append(tables(name, results))
    with _files.replacing(page) as temporary:
        numbers = f"{BEGIN}\n\n" + "\n\n".join(sections) + f"\n\n{END}"
        temporary.write_text(before + numbers + rest.partition(END)[2])


if __name__ == "__main__":
    main()
