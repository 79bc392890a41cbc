"""Updates whose gradients are written by hand, for Headrace's own networks of perceptrons.

The losses are in the algorithms' files, for autograd. These modules compute the same updates without autograd's graph,
whose many small nodes take time. `benchmarks/fused_updates.py` measures the difference.
"""
