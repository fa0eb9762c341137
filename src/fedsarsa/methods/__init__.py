"""The other systems of the papers' tables, one file each, all trained and measured like FedSARSA.

A method is a frozen dataclass of its settings that does what `Method` says; nothing is to be derived from.
Half of them are settings of FedSARSA (`Setting`): a server rule of ``fs.servers``, or an option of the step.
"""

from fedsarsa.methods.consensus_td import ConsensusTD
from fedsarsa.methods.dis_sacc import DisSACC
from fedsarsa.methods.features_of_states import state_features
from fedsarsa.methods.fed_hsa import FedHSA
from fedsarsa.methods.fed_q import FedQ
from fedsarsa.methods.fed_syn_q import FedSynQ
from fedsarsa.methods.fed_td import FedTD
from fedsarsa.methods.method import Communication, ControlMethod, Method
from fedsarsa.methods.n_step_td import NStepTD
from fedsarsa.methods.one_shot_td import OneShotTD
from fedsarsa.methods.pf_lsa import PFLSA
from fedsarsa.methods.proj_p_avg import ProjPAvg
from fedsarsa.methods.q_avg import QAvg
from fedsarsa.methods.sarsa import SARSA, ScaffoldSARSA
from fedsarsa.methods.scafflsa import SCAFFLSA
from fedsarsa.methods.soft_p_avg import SoftPAvg

__all__ = [
    "METHODS",
    "PFLSA",
    "SARSA",
    "SCAFFLSA",
    "Communication",
    "ConsensusTD",
    "ControlMethod",
    "DisSACC",
    "FedHSA",
    "FedQ",
    "FedSynQ",
    "FedTD",
    "Method",
    "NStepTD",
    "OneShotTD",
    "ProjPAvg",
    "QAvg",
    "ScaffoldSARSA",
    "SoftPAvg",
    "state_features",
]

# By their names in configurations and tables.
METHODS: tuple[type[Method], ...] = (
    SARSA,
    ScaffoldSARSA,
    FedQ,
    FedSynQ,
    FedTD,
    NStepTD,
    ConsensusTD,
    OneShotTD,
    SCAFFLSA,
    FedHSA,
    DisSACC,
    PFLSA,
    QAvg,
    SoftPAvg,
    ProjPAvg,
)
