"""The private functions and classes of scikit-learn that this package uses, all in one place.

scikit-learn has no public way to declare what a parameter may be, to split rows as its own meta-estimators do, or to
choose the positive label as its metrics do. Writing them again would give other messages than its users know. A
release of scikit-learn that moves one of these names breaks this file and no other.
"""

from __future__ import annotations

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import HasMethods, Hidden, Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _check_pos_label_consistency as check_pos_label_consistency
from sklearn.utils.validation import _num_samples as num_samples

#: What each parameter of an estimator may be: what `validate_parameter_constraints` reads.
Constraints = dict[str, list[object]]

__all__ = [
    "Constraints",
    "HasMethods",
    "Hidden",
    "Interval",
    "StrOptions",
    "check_method_params",
    "check_pos_label_consistency",
    "fit_context",
    "num_samples",
    "safe_split",
    "validate_parameter_constraints",
]
