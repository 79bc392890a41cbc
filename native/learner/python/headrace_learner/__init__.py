"""The compiled part of Headrace's training, the module `headrace_learner._learner`: updates of small networks."""

__version__ = "0.2.0"
