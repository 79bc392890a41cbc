"""Samplers, learners and evaluators that run in processes of their own."""
