"""The page on which a run can be watched."""
