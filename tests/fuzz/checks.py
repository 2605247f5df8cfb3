"""What must hold for every case: one function for each property, which raises AssertionError with what it found."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import calibrant
from calibrant import CalibrationWarning, get_calibrator
from calibrant.inputs.words import ClassOrderWarning
from tests.fuzz.cases import Case
from tests.fuzz.objectives import Objective

MEMORY_LIMIT_MB = 500
#: How far apart two fits of a unique optimum may be by rounding alone.
ROUNDING = 2e-4
#: Fitted on folds, which are dealt to rows by their number: another order is another deal.
FOLDED = {"auto", "auto-fast", "sqs", "dirichlet-cv", "spline"}
#: Not convex: another order of the columns may end in another local minimum.
NOT_CONVEX = {"mcp"}
#: Step functions jump where a last digit differs; columns in another order only round alike where sums are exact.
STEPS = {"isotonic", "cir", "venn-abers", "bbq", "hist-uniform", "hist-quantile", "scaling-binning", "cdf-spline"}
#: Bins and knots at quantiles are closed on one side. With two classes one curve serves both, so in columns the other
#: way round a prediction on an edge falls into the other bin.
ONE_SIDED = {"bbq", "hist-uniform", "hist-quantile", "scaling-binning", "cdf-spline"}


def check(case: Case) -> None:
    """Fit the case and assert every property; some of the costly ones only for part of the seeds."""
    with Memory():
        calibrator, warned = fitted(case)
        q = valid(case, calibrator)
    rows_alone(case, calibrator, q)
    objective(case, calibrator, warned)
    if case.seed % 3 == 0:
        travels(case, calibrator, q)
    unique = case.method not in FOLDED and case.parameters.get("penalty") not in NOT_CONVEX
    if unique and not warned:
        if case.seed % 4 == 0:
            order_of_rows(case, calibrator)
        if case.seed % 4 == 1:
            order_of_classes(case, calibrator)
        if case.seed % 4 == 2:
            weight_is_repetition(case, calibrator)


def fit(case: Case, p: Any = None, y: Any = None, weight: Any = None, names: Any = None) -> Any:
    calibrator = get_calibrator(case.method, classes=case.names if names is None else names, **case.parameters)
    p, y = (case.p, case.y) if p is None else (p, y)
    return calibrator.fit(p, y, sample_weight=weight)


def fitted(case: Case) -> tuple[Any, bool]:
    """The fitted calibrator, and whether it warned; its input is as it was, and no other warning leaks."""
    p, y = case.p.copy(), case.y.copy()
    p.setflags(write=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = fit(case, p, y, case.weight)
    for item in caught:
        assert issubclass(item.category, CalibrationWarning | ConvergenceWarning), (
            f"leaked {item.category}: {item.message}"
        )
    assert np.array_equal(p, case.p), "the predictions were changed"
    return calibrator, any(item.category is not ClassOrderWarning for item in caught)


def predict(calibrator: Any, p: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return np.asarray(calibrator.predict_proba(p))


def valid(case: Case, calibrator: Any) -> np.ndarray:
    q = predict(calibrator, case.fresh)
    assert q.shape == case.fresh.shape, f"shape {q.shape}"
    assert np.isfinite(q).all(), "not finite"
    assert q.min() >= 0.0, f"negative {q.min()}"
    off = float(np.abs(q.sum(axis=1, dtype=float) - 1.0).max())
    assert off <= (1e-12 if q.dtype == np.float64 else 1e-6), f"rows sum to one but for {off}"
    return q


def rows_alone(case: Case, calibrator: Any, q: np.ndarray) -> None:
    """A row's probabilities do not depend on its neighbours, bit for bit."""
    order = np.random.default_rng(case.seed).permutation(len(q))
    assert np.array_equal(predict(calibrator, case.fresh[order]), q[order]), "another order, other probabilities"
    for i in order[:5]:
        alone = predict(calibrator, case.fresh[i : i + 1])[0]
        assert np.array_equal(alone, q[i]), f"row {i} alone differs by {np.abs(alone - q[i]).max()}"


def objective(case: Case, calibrator: Any, warned: bool) -> None:
    """The stored coefficients give the stored objective, and the gap bounds what another solver can still gain."""
    inner = getattr(calibrator, "calibrator_", calibrator)
    if not hasattr(inner, "objective_"):
        return
    problem = Objective(inner, case.p, case.codes, case.weight)
    again = problem(problem.stored)
    stored = inner.objective_
    allowed = 1e-9 * max(1.0, abs(stored)) + problem.rounding(problem.stored)
    assert abs(again - stored) <= allowed, f"objective_ {stored!r}, recomputed {again!r}"
    gap = getattr(inner, "duality_gap_", np.nan)
    if np.isfinite(gap) and case.seed % 5 == 0 and problem.stored.size <= 30:
        lower = problem.lower_value()
        assert lower >= stored - gap - 1e-9 * max(1.0, stored), f"{stored} with gap {gap}, but {lower} was reached"


def travels(case: Case, calibrator: Any, q: np.ndarray) -> None:
    """A file and a pickle keep every bit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "calibrator.json")
        calibrant.save(calibrator, path)
        assert np.array_equal(predict(calibrant.load(path), case.fresh), q), "loaded from a file, predicts otherwise"
    assert np.array_equal(predict(pickle.loads(pickle.dumps(calibrator)), case.fresh), q), "the pickle differs"


def order_of_rows(case: Case, calibrator: Any) -> None:
    order = np.random.default_rng(case.seed).permutation(len(case.p))
    weight = None if case.weight is None else case.weight[order]
    _alike(calibrator, _quietly(case, case.p[order], case.y[order], weight), case, "rows in another order")


def order_of_classes(case: Case, calibrator: Any) -> None:
    if case.method in STEPS and case.kind != "dyadic":
        return
    k = case.p.shape[1]
    if k == 2 and case.method in ONE_SIDED:
        return
    order = np.random.default_rng(case.seed).permutation(k)
    other = _quietly(case, case.p[:, order], case.y, case.weight, case.names[order])
    back = np.argsort(order)
    _alike(calibrator, other, case, "columns in another order", lambda p: predict(other, p[:, order])[:, back])


def weight_is_repetition(case: Case, calibrator: Any) -> None:
    if case.weight is None or case.weight.max() > 10 or np.any(case.weight != np.floor(case.weight)):
        return
    rows = np.repeat(np.arange(len(case.p)), case.weight.astype(int))
    _alike(calibrator, _quietly(case, case.p[rows], case.y[rows], None), case, "weights instead of repeated rows")


def _quietly(case: Case, p: np.ndarray, y: np.ndarray, weight: Any, names: Any = None) -> Any:
    """A second fit; `None` where it warns, since a fit without a unique optimum may differ."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = fit(case, p, y, weight, names)
    return None if caught else calibrator


def _alike(calibrator: Any, other: Any, case: Case, what: str, predict_other: Any = None) -> None:
    """Two fits to the same rows predict the same, up to what their own certificates leave open.

    For log loss with a convex penalty, the share of a row's weight times its divergence from the optimal prediction is
    at most the gap, and by Pinsker's inequality a probability then differs by at most ``sqrt(gap / (2 share))``.
    """
    if other is None:
        return
    p, q = predict(calibrator, case.p), (predict_other or partial(predict, other))(case.p)
    share = np.full(len(p), 1.0 / len(p)) if case.weight is None else case.weight / case.weight.sum()
    open_ = [_left_open(fit) for fit in (calibrator, other)]
    if not any(np.isfinite(getattr(fit, "duality_gap_", np.nan)) for fit in (calibrator, other)):
        # Without a penalty the optimum may be at infinity, where a small gradient proves little: the fit with the
        # higher objective is as far from it as the other one shows.
        apart = abs(getattr(calibrator, "objective_", 0.0) - getattr(other, "objective_", 0.0))
        assert apart <= 1e-4, f"{what}: objectives differ by {apart:.2g}"
        open_.append(apart)
    allowed = ROUNDING + sum(np.sqrt(gap / (2.0 * np.maximum(share, 1e-300))) for gap in open_)
    beyond = np.abs(p.astype(float) - q).max(axis=1) - allowed
    worst = int(beyond.argmax())
    assert beyond[worst] <= 0, f"{what}: row {worst} differs by {beyond[worst] + allowed[worst]:.2g}"


def _left_open(fit: Any) -> float:
    """How far above its optimum a fit may be: its gap, else what its solver was satisfied with."""
    known = [getattr(fit, name, np.nan) for name in ("duality_gap_", "residual_")]
    known += [1e-8 * max(1.0, fit.objective_)] if hasattr(fit, "objective_") else []
    # Beside one of weight 1e67, a row of weight 1 is lost in the rounding of every sum.
    return float(next((value for value in known if np.isfinite(value)), 0.0)) + 1e-15


class Memory:
    """The most memory that is used while this is open, beyond what was used before (Linux only)."""

    def __enter__(self) -> Memory:
        self._before = _status("VmRSS")
        if self._before is not None:
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        return self

    def __exit__(self, *failure: object) -> None:
        peak = _status("VmHWM")
        if self._before is not None and peak is not None and failure[0] is None:
            used = (peak - self._before) / 1024
            assert used < MEMORY_LIMIT_MB, f"{used:.0f} MB were used"


def _status(name: str) -> int | None:
    """A line of the process's status in kB, where the system has it."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(name + ":")), None)
