"""A pool whose arrays are torch tensors on one device."""
