"""How a run begins, goes on and ends: what is asked for is checked, then a run folder is trained in."""
