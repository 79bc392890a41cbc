"""Soft actor-critic."""

from headrace.train.algorithms import class_of

__getattr__ = class_of(__name__)
