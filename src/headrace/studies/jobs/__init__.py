"""Several runs at once, each in a separate process."""
