"""Reports of a run: metrics, the dashboard, loggers, and the measurements that they show."""
