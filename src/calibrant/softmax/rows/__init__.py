"""Where the rows of a softmax problem live: each module computes what solvers ask for (`calibrant.softmax.problem`)."""
