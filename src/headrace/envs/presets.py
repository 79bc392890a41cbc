"""What the presets of several families share."""

from headrace.pool.family import Settings


def until(earned: float) -> Settings:
    """Returns the settings of a run that ends when the mean of 20 episodes is at a return."""
    return {"stop_at_return": earned, "stop_episodes": 20}
