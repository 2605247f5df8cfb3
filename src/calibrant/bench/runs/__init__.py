"""Running methods on experiments: plan, processes, time limits, results that survive a kill."""
