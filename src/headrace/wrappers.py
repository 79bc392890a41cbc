"""Wrappers of pools that change rewards or observations; see `headrace.pool.wrappers`."""

from headrace.pool.wrappers import NormalizeReward, PoolWrapper, Step, TransformObservation, TransformReward

__all__ = ["NormalizeReward", "PoolWrapper", "Step", "TransformObservation", "TransformReward"]
