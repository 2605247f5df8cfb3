"""Rows of several kinds: one global map, corrected in each segment as far as the data support it."""
