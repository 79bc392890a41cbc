"""Pools with the interfaces of other libraries, and the functions that make them."""
