"""A run on disk: its folder, its checkpoints, its lock, and trust in the code that it names."""
