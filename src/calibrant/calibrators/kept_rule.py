"""A decision rule kept with a calibrator: it is stored and exported with the map, and decides for new predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators.state import StateCheck
from calibrant.steps.actions import CostTable, cheapest
from calibrant.typing import AnyArray


class KeptRule:
    """What calibrators inherit for decisions."""

    classes_: AnyArray

    def set_rule(self: Any, rule: Any) -> Any:
        """Keep a decision rule: `decide` uses it, `calibrant.save` stores it and `calibrant.export` writes it.

        A new fit forgets it.

        Parameters
        ----------
        rule : DecisionRule or None
            Its classes must be those of the calibrator, in any order; `None` removes the rule.

        Returns
        -------
        self : the calibrator.

        Examples
        --------
        >>> from calibrant import DecisionRule, get_calibrator
        >>> calibrator = get_calibrator("ts").fit([0.1, 0.6, 0.9, 0.8], [0, 0, 1, 1])
        >>> calibrator.set_rule(DecisionRule(false_positive=1, false_negative=4)).decide([0.001, 0.3])
        array([0, 1])
        """
        check_is_fitted(self, "classes_")
        if rule is None:
            self.__dict__.pop("rule_", None)
            return self
        if not isinstance(getattr(rule, "table", None), CostTable):
            raise TypeError(f"set_rule takes a DecisionRule, got {type(rule).__name__}")
        self.rule_ = rule.matched(self.classes_)
        return self

    def decide(self: Any, X: ArrayLike, amounts: Mapping[str, ArrayLike] | None = None, **beside: object) -> AnyArray:
        """The action of the rule that was set, for predictions: the cheapest one after calibration.

        Parameters
        ----------
        X : array-like or data frame
            Predictions, as `predict_proba` takes them.
        amounts : mapping of str to array-like of shape (n,), default=None
            The amounts of each row that the costs name.
        **beside
            What `predict_proba` takes beside predictions, such as `segments`.

        Returns
        -------
        actions : ndarray of shape (n,)
        """
        check_is_fitted(self, "classes_")
        if "rule_" not in vars(self):
            raise ValueError(
                f"This {type(self).__name__} has no decision rule: call set_rule(DecisionRule(...)) first."
            )
        p = self.predict_proba(X, **beside)
        rule = self.rule_
        return rule.named(cheapest(rule.table.expected(p, rule.table.check_amounts(amounts, len(p)))))

    def _check_rule(self: Any, state: StateCheck) -> None:
        """Check the rule of a file, which was made of checked costs: it must be for these classes."""
        state.information("rule_")
        if "rule_" in vars(self):
            table = getattr(self.rule_, "table", None)
            state.require(isinstance(table, CostTable), "rule_ should be a decision rule")
            assert isinstance(table, CostTable)
            state.require(table.classes == self.classes_.tolist(), "rule_ is for other classes")
