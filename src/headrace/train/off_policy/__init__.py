"""Algorithms that learn from a replay of everything seen of late: where steps are dear, it makes many updates of each.

What they have in common is `policy`; `ddpg` and those beside it are networks and one update each.
"""
