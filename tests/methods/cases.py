"""Every method with its options, and a fleet to train it in."""

import numpy as np

import fedsarsa as fs

AGENTS, S, A = 3, 6, 4
FLEET = fs.paper.fleet(AGENTS, eps_p=0.5, eps_r=0.5, seed=3, states=S, actions=A, discount=0.6)
REWARDS = fs.paper.fleet(AGENTS, eps_p=0.0, eps_r=0.5, seed=3, states=S, actions=A, discount=0.6)
PAIRS = fs.TabularFeatures(np.random.default_rng(0).uniform(0, 0.5, size=(S, A, 5)))
STATES = fs.methods.state_features(np.random.default_rng(0).uniform(0, 0.5, size=(S, 4)), A)
GROUPS = fs.ModuloFeatures(3, 1)
PI = fs.FixedPolicy(np.random.default_rng(1).dirichlet(np.ones(A), size=S))
EACH = [fs.FixedPolicy(np.random.default_rng(k).dirichlet(np.ones(A), size=S)) for k in range(AGENTS)]
ALIKE = [fs.FixedPolicy(row) for row in np.random.default_rng(4).dirichlet(np.ones(A), size=AGENTS)]
SLOWING = fs.LinearDecay(3.0, 9.0)
m = fs.methods
CASES = {
    "FedTD": m.FedTD(STATES, PI, 0.2, sync_every=4, server_step=0.5, radius=1.0),
    "n-step": m.NStepTD(PAIRS, PI, 0.2, sync_every=4, n=3),
    "n-step groups": m.NStepTD(GROUPS, PI, [0.1, 0.2, 0.3], sync_every=5, n=2),
    "n-step slowing": m.NStepTD(STATES, PI, SLOWING, sync_every=4, n=2),
    "n-step others": m.NStepTD(GROUPS, PI, 0.1, sync_every=4, n=3, behaviour=EACH),
    "1-step others": m.NStepTD(fs.ModuloFeatures(S, 1), PI, 0.1, sync_every=4, n=1, behaviour=EACH[1]),
    "n-step beyond the round": m.NStepTD(PAIRS, PI, 0.2, sync_every=4, n=6),
    "n-step alike": m.NStepTD(GROUPS, ALIKE[0], 0.1, sync_every=4, n=3, behaviour=ALIKE),
    "n-step some alike": m.NStepTD(GROUPS, ALIKE[0], 0.1, sync_every=4, n=2, behaviour=[*ALIKE[:2], EACH[2]]),
    "n-step others beyond": m.NStepTD(GROUPS, PI, 0.1, sync_every=1, n=4, behaviour=EACH),
    "consensus complete": m.ConsensusTD(STATES, PI, 0.2, graph="complete"),
    "consensus": m.ConsensusTD(STATES, PI, 0.2, graph="ring", radius=0.8),
    "one shot": m.OneShotTD(PAIRS, PI, 0.2),
    "SCAFFLSA": m.SCAFFLSA(STATES, PI, 0.2, sync_every=4),
    "SCAFFLSA slowing": m.SCAFFLSA(GROUPS, PI, SLOWING, sync_every=4),
    "FedHSA": m.FedHSA(STATES, PI, 0.2, sync_every=4),
    "FedHSA groups": m.FedHSA(GROUPS, PI, [0.1, 0.2, 0.3], sync_every=1),
    "FedHSA slowing": m.FedHSA(GROUPS, PI, SLOWING, sync_every=4),
    "DisSACC": m.DisSACC(STATES, PI, 0.4, sync_every=4),
    "PF-LSA": m.PFLSA(STATES, PI, 0.2),
    "PF-LSA in rounds": m.PFLSA(GROUPS, PI, 0.2, own=0.3, sync_every=4),
    "independent FedTD": m.FedTD(GROUPS, PI, 0.2, sync_every=4, independent=True),
    "independent SCAFFLSA": m.SCAFFLSA(STATES, PI, 0.2, sync_every=4, independent=True),
    "independent FedHSA": m.FedHSA(GROUPS, PI, 0.2, sync_every=4, independent=True),
    "independent DisSACC": m.DisSACC(STATES, PI, [0.1, 0.2, 0.3], sync_every=4, independent=True),
    "equal": m.FedQ(EACH, 0.2, sync_every=4),
    "equal alike": m.FedQ(ALIKE, 0.2, sync_every=4),
    "importance": m.FedQ(EACH, 0.2, sync_every=4, averaging="importance"),
    "importance at every step": m.FedQ(EACH, 0.2, sync_every=1, averaging="importance"),
    "importance own steps": m.FedQ(ALIKE, [0.1, 0.2, 0.3], sync_every=1, averaging="importance"),
    "all pairs": m.FedSynQ(0.3, sync_every=4),
    "all pairs slowing": m.FedSynQ(SLOWING, sync_every=3),
    "expected": m.SARSA(GROUPS, fs.Softmax(0.5), 0.2, sync_every=4, aim="expected"),
    "scaffold": m.ScaffoldSARSA(PAIRS, fs.Softmax(0.5), 0.2, sync_every=4),
    "scaffold groups": m.ScaffoldSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(0.5), 0.2, sync_every=4),
    "scaffold slowing": m.ScaffoldSARSA(fs.OneHot(), fs.Softmax(0.5), SLOWING, sync_every=4),
    "scaffold expected": m.ScaffoldSARSA(policy=fs.Softmax(0.5), sync_every=5, aim="expected"),
    "scaffold largest": m.ScaffoldSARSA(policy=fs.EpsilonGreedy(0.2), sync_every=3, aim="max"),
}
