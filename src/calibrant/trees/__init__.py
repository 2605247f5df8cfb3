"""Small boosted trees that correct logits: a native layer for the flagship calibrator, without other packages."""
