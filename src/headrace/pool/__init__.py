"""Pools: batches of environments behind one API, independent of any learning algorithm."""
