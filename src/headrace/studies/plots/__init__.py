"""Plots of runs: the curve of one run, and several runs with bands over their seeds."""
