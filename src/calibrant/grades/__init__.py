"""Grades: a scale of probabilities, its backtests, migration between periods, and portfolios with few cases."""

from calibrant.grades.backtesting import GradeBacktest, pluto_tasche
from calibrant.grades.master_scale import MasterScale, Migration

__all__ = ["GradeBacktest", "MasterScale", "Migration", "pluto_tasche"]
