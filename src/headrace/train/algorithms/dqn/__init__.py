"""Deep Q-networks."""

from headrace.train.algorithms import class_of

__getattr__ = class_of(__name__)
