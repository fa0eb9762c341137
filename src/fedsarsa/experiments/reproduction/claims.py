"""All claims of the paper as one table."""

import csv
import io
from collections.abc import Mapping, Sequence

import xarray as xr

from fedsarsa.experiments.reproduction import collaboration_claims, figure_claims, theory_claims
from fedsarsa.experiments.reproduction.claim import Claim
from fedsarsa.experiments.reproduction.exact import Exact
from fedsarsa.experiments.reproduction.settings import Scale


def claims(data: Mapping[str, xr.Dataset], facts: Sequence[Exact], scale: Scale) -> list[Claim]:
    """Every claim, in the order of the paper."""
    return [
        theory_claims.perturbation(facts),
        theory_claims.ball(data["sarsa"], scale),
        theory_claims.step_size(facts),
        theory_claims.radius(
            data["sarsa"],
            'The ball\'s "radius tightens as the number of agents grows": as 1/N',
            "introduction, cor:err-con, fig:sarsa",
            "sarsa",
        ),
        theory_claims.near_optimal(data["agents"]),
        *theory_claims.speedup(data["decay"]),
        theory_claims.personalised(data["personalisation"], scale),
        theory_claims.communication(data["period"]),
        collaboration_claims.expedited(data["sarsa"], scale),
        collaboration_claims.counterproductive(data["sarsa"], scale),
        collaboration_claims.robust(data["sarsa"], facts[0].own, scale),
        figure_claims.heterogeneity(data["sarsa"], scale, "eps_r", "reward", "sarsa-np"),
        figure_claims.heterogeneity(data["sarsa"], scale, "eps_p", "kernel", "sarsa-nr"),
        figure_claims.reward_or_kernel(data["sarsa"], scale),
        theory_claims.radius(
            data["td"],
            'Results of federated TD(0) are "similar to the results in" sec:exp: the floor falls as 1/N',
            "sec:exp-td, fig:td",
            "td",
        ),
        figure_claims.covered(data["ql"]),
        figure_claims.resemblance(data["ql"], data["sarsa"], data["td"], data["ties"]),
        theory_claims.central(data["sarsa"], facts, scale),
        theory_claims.radius(
            data["tabular"],
            '"we reduce our algorithm and analysis to the tabular setting": there too, the '
            "floor falls as 1/N",
            "sec:tab",
            "tabular",
        ),
        figure_claims.projected(data["projection"]),
        figure_claims.released(data["sarsa"], data["released"]),
        collaboration_claims.mean_world(data["sarsa"], data["symmetric"], scale),
        figure_claims.predicted(data["sarsa"]),
    ]


def to_csv(rows: Sequence[Claim]) -> str:
    """The table as CSV; the confidence interval is empty where a number is exact."""
    text = io.StringIO()
    writer = csv.writer(text)
    names = ("claim", "where", "quantity", "value", "low", "high", "verdict", "detail", "figure")
    writer.writerow(names)
    for row in rows:
        one = row.measured
        interval = ("", "") if one.low == one.high else (one.low, one.high)
        writer.writerow(
            (row.claim, row.where, row.quantity, one.value, *interval, row.verdict, row.detail, row.figure)
        )
    return text.getvalue()
