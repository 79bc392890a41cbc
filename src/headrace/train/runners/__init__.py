"""The loops that train: in turn, with workers, and in several processes."""
