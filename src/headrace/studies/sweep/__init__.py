"""Searches for settings, by many runs with different settings, of which poor ones are ended early."""
