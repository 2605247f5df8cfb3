"""The one optimisation problem of this package: penalised softmax regression on features of log-probabilities."""
