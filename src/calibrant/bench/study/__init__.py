"""What results say: one schema, one ranking, tables, tests, figures and the leaderboard page."""
