"""What advances the environments of a pool of torch tensors, on a CPU or a GPU."""
