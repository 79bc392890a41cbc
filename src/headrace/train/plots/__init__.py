"""Plots of runs: one run's own curve, and several runs with bands over their seeds."""
