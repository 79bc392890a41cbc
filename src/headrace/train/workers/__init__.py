"""Samplers, learners and evaluators, each in a process of its own."""
