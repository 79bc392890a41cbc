"""Algorithms: policies with their losses, optimisers and updates."""
