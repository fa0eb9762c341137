"""Trainings from configuration files, the paper's figures, plots."""
