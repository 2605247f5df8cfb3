"""Calibrators that are logistic maps of the log-probabilities: temperature, vector, matrix, Dirichlet and their kin."""
