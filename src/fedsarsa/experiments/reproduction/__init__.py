"""The paper's simulations from nothing: every figure, every claim, one report."""
