"""Batches of environments behind one API; knows nothing of learning."""
