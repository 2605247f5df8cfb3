"""Which class each column of predictions stands for: found in `fit`, and checked whenever predictions are given."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators.score_scaling import DIRECTIONS
from calibrant.inputs.class_columns import check_second_class, fitted_columns, order_of_columns
from calibrant.inputs.labels import name_columns, order_of_names
from calibrant.inputs.predictions import as_matrix
from calibrant.typing import AnyArray


class ClassColumns:
    """The classes of a calibrator and the columns of the predictions that it takes."""

    if TYPE_CHECKING:
        classes: Any
        classes_: AnyArray
        input: str

    @property
    def takes_scores(self) -> bool:
        """Whether predictions are scores of any direction and scale."""
        return self.input in DIRECTIONS

    @property
    def takes_logits(self) -> bool:
        """Whether predictions are logits, or become logits when they are scaled."""
        return self.input != "probabilities"

    def _take_names(
        self,
        labels: AnyArray,
        n_classes: int,
        n_given: int,
        names: list[object] | None = None,
        categories: AnyArray | None = None,
    ) -> None:
        """Find the names of the classes from the labels seen and the `n_given` columns with their names."""
        self.n_features_in_ = n_given
        self._set_names(names)
        self.classes_, self._column_order = name_columns(
            labels, n_classes, classes=self.classes, names=names, categories=categories
        )

    def _name_classes(self, classes: AnyArray) -> None:
        """Take the classes that another calibrator has found, with one column per class in their order."""
        self.classes_ = classes
        self.n_features_in_ = len(classes)
        self._set_names(None)
        self._column_order = None
        if self.takes_scores:  # which that calibrator has scaled
            self.score_factor_, self.score_shift_ = 1.0, 0.0

    def _check_predictions(self, X: object) -> tuple[AnyArray, NDArray[np.intp] | None]:
        """Predictions with as many columns as in `fit`, and the column of each class (`None`: in their order)."""
        if "classes_" not in self.__dict__:  # asking first is several times faster than check_is_fitted
            check_is_fitted(self)
        # A stored calibrator that was changed may lack the names, which arrays do not need.
        array, names = as_matrix(fitted_columns(X, getattr(self, "_column_names", None)))
        columns = self._check_columns(array)
        if columns == 1:
            if names is not None and names != self._column_names:
                check_second_class(names[0], self.classes_.tolist())
            return array, None
        if names is None:
            if hasattr(self, "feature_names_in_") and columns == self.n_features_in_:
                warnings.warn(
                    f"X does not have valid feature names, but {type(self).__name__} was fitted with feature names",
                    UserWarning,
                    stacklevel=3,
                )
            return array, self._column_order
        if self._column_names is None or columns != self.n_features_in_:
            return array, order_of_names(self.classes_, names)
        return array, order_of_columns(names, self._column_names, self._column_order)

    def _check_columns(self, array: Any) -> int:
        """The number of columns of predictions, which must be that of `fit`."""
        columns = 1 if array.ndim == 1 else int(array.shape[1])
        either = {columns, self.n_features_in_} == {1, 2} and not self.takes_scores
        if columns != self.n_features_in_ and not either:
            raise ValueError(
                f"X has {columns} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input: one column per class, as in fit. Reshape your data."
            )
        return columns

    def _set_names(self, names: list[object] | None) -> None:
        for name in ("uncertainty_", "audit_", "rule_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self._column_names: list[object] | None = names
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def for_json(classes: AnyArray, names: list[Any] | None) -> tuple[list[Any], list[Any] | None]:
    """Labels and names of columns as JSON holds them: other labels as texts, no names if one is, say, a date."""
    labels = [label if isinstance(label, (bool, int, float, str)) else str(label) for label in classes.tolist()]
    return labels, names if names is not None and all(isinstance(name, (int, str)) for name in names) else None
