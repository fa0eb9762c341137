"""The other systems of the papers' tables, one file each, all trained and measured like FedSARSA.

A method is a frozen dataclass of its settings that does what `Method` says; nothing is to be derived from.
Half of them are settings of FedSARSA (`Setting`): a server rule of ``fs.servers``, or an option of the step.
"""

from fedsarsa.methods.fed_td import FedTD
from fedsarsa.methods.method import Communication, ControlMethod, Method

__all__ = ["METHODS", "Communication", "ControlMethod", "FedTD", "Method"]

# By their names in configurations and tables.
METHODS: tuple[type[Method], ...] = (FedTD,)
