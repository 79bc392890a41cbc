"""Samplers, learners and evaluators, each in a separate process."""
