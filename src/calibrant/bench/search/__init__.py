"""Search for hyperparameters over many datasets, with a control group."""

from calibrant.bench.search.hyperparameters import search_hyperparameters

__all__ = ["search_hyperparameters"]
