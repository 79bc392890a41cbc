"""Seconds and steps to a return, for a list of tasks: trained here, and written into a table that anyone can redo."""
