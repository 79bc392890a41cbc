"""Adapters of pools to other libraries. Each module needs its library; this package imports none of them."""
