"""Runs unchanged Gymnasium environments in worker processes, several in each, over shared memory."""
