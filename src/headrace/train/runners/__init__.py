"""The training loops: collecting and learning in turn, with workers, and in several processes."""
