"""Grades: a scale of probabilities, its backtests, migration between periods, and portfolios with few cases."""

from calibrant.grades.backtesting import GradeBacktest
from calibrant.grades.low_default import pluto_tasche
from calibrant.grades.master_scale import MasterScale
from calibrant.grades.migrating import Migration

__all__ = ["GradeBacktest", "MasterScale", "Migration", "pluto_tasche"]
