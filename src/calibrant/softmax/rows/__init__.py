"""Where the rows of a softmax problem live: each home answers what `calibrant.softmax.problem` lets a solver ask."""
