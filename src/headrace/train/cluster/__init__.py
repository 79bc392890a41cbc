"""Samplers and the evaluator as Ray actors, on the nodes of a cluster; the learner is the same as without one.

Ray is imported only in the process of `headrace.train.cluster.driver`, and only if a run uses a cluster.
"""
