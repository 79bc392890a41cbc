"""Searches for settings: many runs, each with others, of which the poor ones end early."""
