"""Processes that live and die together: starting, stopping and feeding them."""
