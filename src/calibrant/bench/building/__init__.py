"""Predictions to benchmark on: bundled datasets, models, the protocol, the builder, and a small embedded suite."""
