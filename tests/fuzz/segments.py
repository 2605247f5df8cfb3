"""Random calibrators with segments, alone and adapted: rows of every unpleasant kind in columns of every kind."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import calibrant
from calibrant import CalibrationWarning, SegmentedCalibrator, adapt, get_calibrator, runtime
from calibrant.writers.exporting import export_with_proof
from tests.fuzz.cases import PREDICTIONS, draw_labels, draw_names, draw_predictions, draw_weights
from tests.fuzz.checks import ROUNDING

GLOBAL = ("none", "ts", "svs", "isotonic", "hist-uniform", "beta")
#: Equal to a reader and not to a machine, equal to a machine and not to a reader, and what ends a text elsewhere.
TEXTS: tuple[Any, ...] = (
    *("north", "North", " north", "1", "1.0", "01", "True", "true", "nan", "", "\0", "a\0", "a", "é", "e\u0301"),
    *('"; DROP TABLE x; --', "</script>", "*/", "__proto__", "\ud800", "x" * 300, None, 1, 1.0, True, float("nan")),
)
NUMBERS = (0.0, -0.0, 1e-5, 1e-320, 1e300, -1e300, 1e99, -1e99, np.inf, -np.inf, np.nan, 2.0**53)
COLUMNS = ("few texts", "all texts", "few numbers", "numbers", "odd numbers", "Booleans", "constant", "row by row")


@dataclass(frozen=True)
class SegmentedCase:
    """One problem: a calibrator with options, labelled predictions with segments, and rows to predict."""

    seed: int
    method: str
    options: dict[str, Any]
    p: np.ndarray
    y: np.ndarray
    names: np.ndarray
    weight: np.ndarray | None
    frame: dict[str, np.ndarray]
    fresh: np.ndarray
    fresh_frame: dict[str, np.ndarray]

    def __str__(self) -> str:
        n, k = self.p.shape
        return f"seed {self.seed}: {self.method} by segments {self.options} on {n} × {k} predictions"

    def fit(self, rows: np.ndarray, weight: np.ndarray | None) -> Any:
        calibrator = SegmentedCalibrator(get_calibrator(self.method), n_folds=2, classes=self.names, **self.options)
        return calibrator.fit(self.p[rows], self.y[rows], weight, segments=taken(self.frame, rows))


def taken(frame: dict[str, np.ndarray], rows: Any) -> dict[str, np.ndarray]:
    """Some rows of a frame."""
    return {name: column[rows] for name, column in frame.items()}


def make_segmented(seed: int) -> SegmentedCase:
    """The case of a seed."""
    rng = np.random.default_rng([11, seed])
    k, n = int(rng.choice([2, 2, 3, 4, 12])), int(rng.choice([3, 4, 8, 14, 30, 60]))
    kind = str(rng.choice(PREDICTIONS))
    p, names = draw_predictions(rng, n, k, kind), draw_names(rng, k)
    kinds = rng.choice(COLUMNS, int(rng.integers(1, 4)))
    columns = {f"{number}'s {kind}": _column(rng, str(kind), n + 12) for number, kind in enumerate(kinds)}
    options = {
        "strength": float(rng.choice([3.0, 30.0])),
        "trees": bool(rng.random() < 0.2),
        "crossed": bool(rng.random() < 0.3),
    }
    return SegmentedCase(
        seed,
        str(rng.choice(GLOBAL)),
        options,
        p,
        names[draw_labels(rng, p, kind)],
        names,
        draw_weights(rng, n),
        taken(columns, slice(n)),
        np.vstack([draw_predictions(rng, 10, k, kind), np.eye(k)[[0, k - 1]]]).astype(p.dtype),
        taken(columns, slice(n, None)),
    )


def _column(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    if kind.endswith("texts"):
        chosen = rng.permutation(len(TEXTS))[: 3 if kind == "few texts" else None]
        column = np.empty(n, dtype=object)
        column[:] = [TEXTS[i] for i in rng.choice(chosen, n)]
        return column
    if kind == "few numbers":
        return rng.choice([0.0, 1e-5, 2.5, np.nan], n)
    if kind == "odd numbers":
        return np.where(rng.random(n) < 0.5, rng.choice(NUMBERS, n), rng.normal(size=n))
    if kind == "Booleans":
        return rng.random(n) < 0.5
    if kind == "constant":
        return np.full(n, "here")
    return rng.integers(0, 50, n) if kind == "numbers" else np.arange(n).astype(str)


def check_segmented(case: SegmentedCase) -> None:
    """Fit the case and assert every property."""
    every, given = np.arange(len(case.p)), pickle.dumps((case.p, case.frame))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = case.fit(every, case.weight)
    for item in caught:
        assert issubclass(item.category, CalibrationWarning | ConvergenceWarning), f"leaked {item.message}"
    assert pickle.dumps((case.p, case.frame)) == given, "the input was changed"
    q = _behaves(case, calibrator)
    _unknown_levels(case, calibrator)
    _is_repetition(case, calibrator, bool(caught))
    k = len(case.names)
    prior, source = np.random.default_rng(case.seed).dirichlet(np.ones(k) * 3.0, 2) * 0.9 + 0.1 / k
    adapted = _behaves(case, adapt(calibrator, prior=prior, source=source))
    expected = q.astype(float) * (prior / source)
    np.testing.assert_allclose(
        adapted, expected / expected.sum(axis=1, keepdims=True), rtol=0, atol=1e-12 if q.dtype == np.float64 else 1e-5
    )
    if case.seed % 10 == 0:
        export_with_proof(calibrator, to="python")


def _predict(calibrator: Any, case: SegmentedCase, rows: Any = slice(None)) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return np.asarray(calibrator.predict_proba(case.fresh[rows], segments=taken(case.fresh_frame, rows)))


def _behaves(case: SegmentedCase, calibrator: Any) -> np.ndarray:
    """Valid probabilities that depend on nothing but their row, the same from files, pickles and NumPy alone."""
    q = _predict(calibrator, case)
    assert q.min() >= 0.0
    assert np.abs(q.sum(axis=1, dtype=float) - 1.0).max() <= (1e-12 if q.dtype == np.float64 else 1e-6)
    order = np.random.default_rng(case.seed).permutation(len(q))
    assert np.array_equal(_predict(calibrator, case, order), q[order]), "another order, other probabilities"
    for i in order[:3]:
        assert np.array_equal(_predict(calibrator, case, slice(i, i + 1))[0], q[i]), f"row {i} alone differs"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "calibrator.json")
        calibrant.save(calibrator, path)
        for again in (calibrant.load(path), runtime.load(path), pickle.loads(pickle.dumps(calibrator))):
            assert np.array_equal(_predict(again, case), q), f"{type(again).__name__} predicts otherwise"
    return q


def _unknown_levels(case: SegmentedCase, calibrator: Any) -> None:
    """Rows of which nothing is known go to the global map, unless a number of them is known."""
    if any(levels.dtype.kind == "f" for levels in calibrator.segment_columns_.values()):
        return
    nowhere = {name: np.full(len(case.fresh), "nowhere to be found") for name in case.frame}
    found, plain = calibrator.predict_proba(case.fresh, segments=nowhere), calibrator.calibrator_
    tolerance = 1e-12 if found.dtype == np.float64 else 1e-6
    np.testing.assert_allclose(found, plain.predict_proba(case.fresh), rtol=0, atol=tolerance)


def _is_repetition(case: SegmentedCase, calibrator: Any, warned: bool) -> None:
    """Weights are counts of rows in the corrections, if these do not depend on how rows are dealt to folds."""
    weight, dealt = case.weight, case.method != "none" or calibrator.trees
    if warned or dealt or weight is None or weight.max() > 10 or np.any(weight != np.floor(weight)):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            again = case.fit(np.repeat(np.arange(len(case.p)), weight.astype(int)), None)
        except (CalibrationWarning, ConvergenceWarning):
            return  # without a unique optimum the two may differ
    apart = np.abs(_predict(calibrator, case).astype(float) - _predict(again, case)).max()
    allowed = ROUNDING + sum(np.sqrt(c.duality_gap_ * weight.sum() / 2.0) for c in (calibrator, again))
    assert apart <= allowed, f"weights instead of repeated rows: {apart:.2g}"
