"""Rows of several kinds: one global map, corrected in each segment as far as its rows can tell."""
