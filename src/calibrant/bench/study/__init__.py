"""The study of results: one ranking, statistics, tables, figures and the leaderboard page."""

from calibrant.optional import require

# Every module here works on data frames: one that is missing is explained before any of them imports it.
require("pandas", extra="bench")
