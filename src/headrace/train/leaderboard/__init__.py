"""Measurements of the seconds and steps that reaching a return takes, for a list of tasks, and a table of them."""
