"""Measurements of the seconds and steps until a return is reached, for a list of tasks, and a table of them."""
