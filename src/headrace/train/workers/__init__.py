"""Processes that train together without waiting for one another: samplers, a learner, an evaluator, a viewer.

They share memory and nothing else: samplers write what they see into a replay that the learner reads in place
(`headrace.train.off_policy.steps`), or rollouts that wait for it (`headrace.train.workers.rollouts`); weights come back
through a double buffer (`headrace.train.workers.weights`), and counters lie on a board that all can see
(`headrace.train.workers.board`). No algorithm's formulas are in here.
"""
