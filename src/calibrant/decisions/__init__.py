"""From probabilities to decisions: costs, thresholds, what a decision is worth."""

from calibrant.decisions.cost_sensitive import CostSensitiveClassifier
from calibrant.decisions.curves import DecisionCurve, RiskCoverage, decision_curve, risk_coverage
from calibrant.decisions.rule import ActionRange, DecisionRule
from calibrant.decisions.thresholds import ChosenThreshold, choose_threshold
from calibrant.decisions.value import (
    BestThreshold,
    DecisionComparison,
    best_threshold,
    compare_decisions,
    decision_cost,
)

__all__ = [
    "ActionRange",
    "BestThreshold",
    "ChosenThreshold",
    "CostSensitiveClassifier",
    "DecisionComparison",
    "DecisionCurve",
    "DecisionRule",
    "RiskCoverage",
    "best_threshold",
    "choose_threshold",
    "compare_decisions",
    "decision_cost",
    "decision_curve",
    "risk_coverage",
]
