"""Pools behind the interfaces of other libraries. Each module needs its library; this package imports none."""
