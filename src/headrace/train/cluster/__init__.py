"""Samplers and the evaluator in Ray actors, on the nodes of a cluster; the learner stays as it is.

Ray is imported only in the process that talks to the cluster (`courier`), and only where a run asks for it.
"""
