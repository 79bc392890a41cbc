"""The settings of a run: their bounds and uses, and the presets of algorithms."""
