"""Many runs: several seeds at once, sweeps, tuning, plots over runs, and a leaderboard.

`headrace.train` is one run and knows nothing of this package, which starts such runs and reads their folders.
"""

from headrace.studies.jobs.seeds import SeedResult, resume_seeds, train_seeds

__all__ = ["SeedResult", "resume_seeds", "train_seeds"]
