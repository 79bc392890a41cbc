"""The version of Headrace."""

__version__ = "0.1.0"
