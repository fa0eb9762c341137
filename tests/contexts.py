"""What server rules are told of a round, for tests that call them without an engine."""

import numpy as np

from fedsarsa.federation.servers import Context


def context_of(after, present=None, **known):
    """The context of a round that ended with the parameters ``after`` (R, N, d); what is ``known`` of it."""
    runs, agents, _ = after.shape
    nothing = np.empty((runs, agents, 0))
    usual = {"t": 0, "steps": 1, "step_sums": np.ones(agents), "left": nothing, "shift": nothing}
    return Context(**usual | known, present=present)
