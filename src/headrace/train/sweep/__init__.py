"""Searches for settings: many runs with different settings, of which poor ones are ended early."""
