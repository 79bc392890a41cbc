"""Pools as other libraries know environments. Each module needs its library, and nothing here imports one."""
