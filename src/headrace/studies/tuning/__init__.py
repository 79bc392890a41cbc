"""Measurements of the speed of training on a machine, and settings chosen by them."""
