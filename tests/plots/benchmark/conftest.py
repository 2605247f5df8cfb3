"""The synthetic results of the benchmark's tests."""

from tests.bench.conftest import make_results, results

__all__ = ["make_results", "results"]
