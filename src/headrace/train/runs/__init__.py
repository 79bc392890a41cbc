"""A run on disk: its folder, its checkpoints, and who may write to it."""
