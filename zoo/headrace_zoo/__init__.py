"""Trained agents for Headrace, a folder each, which `headrace.train.runs.zoo` reads."""

__version__ = "0.2.0"
