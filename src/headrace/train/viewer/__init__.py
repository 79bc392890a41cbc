"""The web page on which a run can be watched."""
