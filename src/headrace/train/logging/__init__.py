"""Reports of a run: metrics, the dashboard, plots, and the measurements behind them."""
