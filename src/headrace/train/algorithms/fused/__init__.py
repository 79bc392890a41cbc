"""Updates whose gradients are written by hand, for Headrace's own networks of perceptrons.

The losses stand in the algorithms' files, in plain autograd; what is here computes the same updates without a graph of
small nodes. `benchmarks/fused_updates.py` measures what that saves.
"""
