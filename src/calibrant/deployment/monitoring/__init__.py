"""Watching a calibrator in use: bets against its probabilities, what changed, and what can be said without labels."""
