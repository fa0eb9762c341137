"""Which curves each figure of the paper shows: panels as views of the trained grids."""

from dataclasses import dataclass, replace

from fedsarsa.experiments.reproduction.settings import Scale


@dataclass(frozen=True)
class Panel:
    """Curves along one axis of a grid, the others held.

    Attributes
    ----------
    source : str
        Which grid: ``sarsa`` (eps_p, eps_r, agents), ``td`` or ``ql`` (eps_p, agents; both levels equal).
    along : {"agents", "eps_p", "eps_r"}
        The axis with one curve per value.
    held : dict
        Values of the other axes.
    """

    title: str
    source: str
    along: str
    held: dict[str, float | int]


@dataclass(frozen=True)
class FigureOfPaper:
    """A figure of the paper: its label, its panels three in a row, what to know about it."""

    label: str
    title: str
    panels: tuple[Panel, ...]
    note: str = ""


def figures(scale: Scale) -> dict[str, FigureOfPaper]:
    """Every simulation figure by its name, with the panels that ``scale`` has trained."""
    found = {
        "sarsa": FigureOfPaper(
            "fig:sarsa",
            "FedSARSA: kernel and reward heterogeneity at the same level",
            tuple(_sizes("sarsa", eps_p=level, eps_r=level) for level in (0.0, 1.0, 2.0)),
        ),
        "sarsa-ee-p": FigureOfPaper(
            "fig:sarsa-ee-p",
            "FedSARSA: kernel heterogeneity 1, reward heterogeneity varied",
            tuple(_sizes("sarsa", eps_p=1.0, eps_r=level) for level in scale.levels),
        ),
        "sarsa-ee-r": FigureOfPaper(
            "fig:sarsa-ee-r",
            "FedSARSA: kernel heterogeneity varied, reward heterogeneity 1 and 0",
            tuple(
                _sizes("sarsa", eps_p=level, eps_r=reward) for reward in (1.0, 0.0) for level in scale.levels
            ),
            "The paper's caption fixes the reward heterogeneity at 1, its text at 0: both are drawn, the "
            "caption's first.",
        ),
        "sarsa-np": FigureOfPaper(
            "fig:sarsa-np",
            "FedSARSA: effect of the reward heterogeneity",
            tuple(_levels("eps_r", size, "eps_p", level) for level in (1.0, 2.0) for size in (5, 10, 20)),
        ),
        "sarsa-nr": FigureOfPaper(
            "fig:sarsa-nr",
            "FedSARSA: effect of the kernel heterogeneity",
            tuple(_levels("eps_p", size, "eps_r", level) for level in (1.0, 2.0) for size in (5, 10, 20)),
            "The paper's panel titles are mixed up here; these are the settings that its text describes.",
        ),
        "td": FigureOfPaper(
            "fig:td",
            "Federated TD(0): a fixed policy, always the first action",
            tuple(_sizes("td", eps_p=level) for level in scale.levels),
        ),
        "ql": FigureOfPaper(
            "fig:ql",
            "On-policy federated Q-learning: the greedy policy, ties to the first class",
            tuple(_sizes("ql", eps_p=level) for level in scale.levels),
            "Ties go to the first class of actions, as in the released program. From 0, with rewards that "
            "are not negative, that class is chosen for ever: the learner is TD(0) of it, and the reference "
            "its fixed point for agent 1. At level 2 other agents have negative rewards, and leave it.",
        ),
    }
    for name, figure in found.items():
        trained = (one for one in figure.panels if one.held.get("agents", scale.sizes[0]) in scale.sizes)
        found[name] = replace(figure, panels=tuple(trained))
    return found


def _sizes(source: str, **held: float | int) -> Panel:
    if source != "sarsa":
        title = rf"$\epsilon_p = \epsilon_r = {held['eps_p']:g}$"
    else:
        title = rf"$\epsilon_p = {held['eps_p']:g}$, $\epsilon_r = {held['eps_r']:g}$"
    return Panel(title, source, "agents", held)


def _levels(along: str, size: int, held: str, level: float) -> Panel:
    title = rf"$N = {size}$, $\epsilon_{held[-1]} = {level:g}$"
    return Panel(title, "sarsa", along, {"agents": size, held: level})
