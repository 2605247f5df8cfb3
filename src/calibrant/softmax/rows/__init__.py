"""Where the rows of a softmax problem are: each module computes what solvers ask for (`calibrant.softmax.problem`)."""
