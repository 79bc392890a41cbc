"""Measurements of a machine, and the settings that follow from them."""
