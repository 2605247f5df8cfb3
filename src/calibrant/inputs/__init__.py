"""The one input contract: predictions, labels, weights and names, checked once for calibrators, metrics and files."""
