"""What a run is told: its settings, what they may be, and the defaults that fit a task."""
