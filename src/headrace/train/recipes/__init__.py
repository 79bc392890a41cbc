"""What a run begins with: the algorithms by name, their presets, and the best of these for each task."""
