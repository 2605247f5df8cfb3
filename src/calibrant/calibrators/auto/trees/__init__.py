"""Boosted oblivious trees that start from given logits: the flagship's most flexible member."""
