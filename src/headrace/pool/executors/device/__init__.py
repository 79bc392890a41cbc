"""Executors of pools whose arrays are torch tensors, on a CPU or a GPU."""
