"""The study of results: one ranking, statistics, tables, figures and the leaderboard page."""

from calibrant.optional import require

# Every module here needs pandas: say how to install it before one of them fails to import it.
require("pandas", extra="bench")
