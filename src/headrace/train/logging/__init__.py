"""What a run reports of itself: metrics, the dashboard, plots, and what they are measured with."""
