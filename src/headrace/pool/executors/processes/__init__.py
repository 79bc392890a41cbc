"""Runs any Gymnasium environment unchanged: many in each of a few worker processes, over shared memory."""
