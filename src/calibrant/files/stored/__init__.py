"""Fitted calibrators in files: JSON, exact, nothing executed."""
