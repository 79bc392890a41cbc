"""The version of Headrace."""

__version__ = "0.2.0"
