"""Decomposition, Lp errors and improvement by recalibration: closed forms, a peer, and the folds beneath them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from calibrant.folds import stratified_folds
from calibrant.inputs.samples import check_sample
from calibrant.metrics import (
    brier,
    calibration_loss,
    decompose,
    log_loss,
    lp_calibration_error,
    post_hoc_improvement,
    refinement_loss,
)
from calibrant.metrics.recalibration import dual_direction, recalibrate
from tests.needs import needs
from tests.samples import draw_labels, sharpened

from .conftest import ClassFrequencies, Flatten

Data = tuple[np.ndarray, np.ndarray]


def test_folds_are_dealt_out_evenly() -> None:
    y = np.repeat([0, 1, 2], [50, 3, 27])
    fold = stratified_folds(y, 5, np.random.default_rng(0))
    assert np.bincount(fold).tolist() == [16] * 5
    for label in range(3):
        counts = np.bincount(fold[y == label], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_decomposition_with_a_map_that_needs_no_fit(multiclass: Data) -> None:
    y, p = multiclass
    flat = Flatten().fit(p, y).predict_proba(p)
    for name, loss in (("log_loss", log_loss), ("brier", brier)):
        parts = decompose(y, p, name, method=Flatten())  # type: ignore[arg-type]
        assert parts.total == pytest.approx(loss(y, p), abs=1e-12)
        assert parts.refinement == pytest.approx(loss(y, flat), abs=1e-12)
        assert parts.calibration + parts.refinement == pytest.approx(parts.total, abs=1e-12)
        assert calibration_loss(y, p, loss=name, method=Flatten()) == pytest.approx(parts.calibration)  # type: ignore[arg-type]
        assert refinement_loss(y, p, loss=name, method=Flatten()) == pytest.approx(parts.refinement)  # type: ignore[arg-type]
        assert post_hoc_improvement(y, p, flat, name) == pytest.approx(parts.calibration)  # type: ignore[arg-type]
        relative = post_hoc_improvement(y, p, flat, name, relative=True)  # type: ignore[arg-type]
        assert relative == pytest.approx(parts.calibration / parts.total)


def test_held_out_rows_are_not_seen(multiclass: Data) -> None:
    y, p = multiclass
    cv = StratifiedKFold(3, shuffle=True, random_state=5)
    weight = np.random.default_rng(0).random(len(y))
    data = check_sample(y, p, weight)
    result = recalibrate(data, ClassFrequencies(), cv).proba
    for train, held_out in cv.split(p, y):
        frequencies = np.bincount(y[train], weights=weight[train]) / weight[train].sum()
        np.testing.assert_allclose(result[held_out], np.tile(frequencies, (len(held_out), 1)))


def test_foreign_classifiers_and_rare_classes() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=60)
    y = np.array([0, 1] * 29 + [2, 0])
    with_two = recalibrate(check_sample(y, p), LogisticRegression(), cv=5).proba
    assert with_two.shape == (60, 3)
    np.testing.assert_allclose(with_two.sum(axis=1), 1)
    assert (with_two[:, 2] == 0).any()


def test_intervals_hold_the_parts(multiclass: Data) -> None:
    y, p = multiclass
    parts = decompose(y, p, method=Flatten(), level=0.9, n_resamples=100)
    for part in parts:
        assert part.low < part.value < part.high
    paired = post_hoc_improvement(y, p, np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True), level=0.9)
    assert paired.low == pytest.approx(parts.calibration.low, rel=0.2)


class Isotonic(Flatten):
    """Isotonic regression of the second class."""

    def fit(self, X, y, sample_weight=None):  # type: ignore[no-untyped-def]
        self.classes_ = np.arange(2)
        self.map_ = IsotonicRegression(out_of_bounds="clip").fit(X[:, 1], y, sample_weight)
        return self

    def predict_proba(self, X):  # type: ignore[no-untyped-def]
        positive = self.map_.predict(X[:, 1])
        return np.column_stack([1 - positive, positive])


def test_known_miscalibration() -> None:
    # Scores 0.25 + p/2 of calibrated uniform p: E (p - s)² = 1/48 is lost in Brier score, E |p - s| = 1/8 is L1.
    rng = np.random.default_rng(1)
    p = rng.random(20_000)
    y = (rng.random(20_000) < p).astype(int)
    s = 0.25 + p / 2
    assert calibration_loss(y, s, loss="brier", method=Isotonic()) == pytest.approx(1 / 48, abs=0.002)
    assert refinement_loss(y, s, loss="brier", method=Isotonic()) == pytest.approx(1 / 6, abs=0.004)
    assert lp_calibration_error(y, s, method=Isotonic()) == pytest.approx(1 / 8, abs=0.006)
    both = lp_calibration_error(y, s, method=Isotonic(), kind="class-wise", norm=1)
    assert both == pytest.approx(1 / 4, abs=0.012)
    assert abs(lp_calibration_error(y, p, method=Isotonic())) < 0.006


@pytest.mark.parametrize("norm", [1, 1.5, 2, 4, np.inf])
def test_dual_direction(norm: float) -> None:
    rng = np.random.default_rng(2)
    difference = rng.normal(size=(50, 4)) * 1e-6
    difference[0] = 0
    direction = dual_direction(difference, norm)
    size = np.linalg.norm(difference, ord=norm, axis=1)
    np.testing.assert_allclose(np.sum(direction * difference, axis=1), size, rtol=1e-10)
    dual = {1: np.inf, np.inf: 1}.get(norm, norm / (norm - 1) if norm > 1 else None)
    np.testing.assert_allclose(np.linalg.norm(direction[1:], ord=dual, axis=1), 1, rtol=1e-9)
    assert not direction[0].any()
    np.testing.assert_allclose(dual_direction(difference * 1e-150, norm), direction, rtol=1e-9)


def test_lp_errors_by_their_definition_for_a_map_that_needs_no_fit() -> None:
    p, y = sharpened(80, 3, 1.6)
    g, outcome, rows = np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True), np.eye(3)[y], np.arange(80)
    weight = np.random.default_rng(0).integers(1, 4, 80).astype(float)
    given = {"method": Flatten(), "sample_weight": weight}
    one = np.average(np.sum(np.sign(g - p) * (outcome - p), axis=1), weights=weight)
    two = np.sum((g - p) / np.linalg.norm(g - p, axis=1, keepdims=True) * (outcome - p), axis=1)
    assert lp_calibration_error(y, p, **given) == pytest.approx(one, abs=1e-12)
    assert lp_calibration_error(y, p, norm=2, **given) == pytest.approx(np.average(two, weights=weight), abs=1e-12)
    top = rows, p.argmax(axis=1)
    of_top = np.average((np.sign(g - p) * (outcome - p))[top], weights=weight)
    assert lp_calibration_error(y, p, kind="top-label", norm=2, **given) == pytest.approx(of_top, abs=1e-12)
    both, binary, hit = np.column_stack([1 - p[:, 0], p[:, 0]]), p[:, 0], y == 0
    map_ = np.sqrt(both) / np.sqrt(both).sum(axis=1, keepdims=True)
    of_binary = np.average(np.sign(map_[:, 1] - binary) * (hit - binary), weights=weight)
    for kind in ("auto", "binary"):
        found = lp_calibration_error(hit, binary, kind=kind, **given)
        assert found == pytest.approx(of_binary, abs=1e-12)


def test_recalibration_is_logistic_in_five_folds_unless_told() -> None:
    p, y = sharpened(40, 2, 1.6)
    data = check_sample(y, p)
    np.testing.assert_array_equal(recalibrate(data).proba, recalibrate(data, "logistic", 5, 0).proba)
    assert not np.array_equal(recalibrate(data).proba, recalibrate(data, "logistic", 5, 1).proba)


def test_bad_requests(multiclass: Data) -> None:
    y, p = multiclass
    with pytest.raises(ValueError, match="loss must be"):
        decompose(y, p, "accuracy", method=Flatten())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cv must lie"):
        decompose(y, p, method=Flatten(), cv=1)
    with pytest.raises(ValueError, match="never holds out row 1"):
        decompose(y, p, method=Flatten(), cv=[(np.arange(5), np.array([0]))])
    with pytest.raises(ValueError, match="cv must be"):
        decompose(y, p, method=Flatten(), cv=None)
    with pytest.raises(TypeError, match="fit and predict_proba"):
        decompose(y, p, method=42)
    with pytest.raises(ValueError, match="norm"):
        lp_calibration_error(y, p, norm=0.5, method=Flatten())
    with pytest.raises(ValueError, match="No calibrator is called"):
        decompose(y, p, method="nonesuch")


@pytest.mark.peer
@pytest.mark.torch
@pytest.mark.parametrize("n_classes", [2, 4])
def test_like_probmetrics(n_classes: int) -> None:
    torch = needs("torch")
    theirs = needs("probmetrics.metrics")
    splitters = needs("probmetrics.splitters")
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(n_classes), size=400)
    y = draw_labels(p, rng)
    sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    losses = theirs.CombinedMetrics(
        [theirs.LogLoss(), theirs.BrierLoss(), *(theirs.ProperLpLoss(p=q) for q in (1, 2, np.inf))]
    )
    wrapped = theirs.MetricsWithCalibration(
        losses, LogisticRegression(), val_splitter=splitters.CVSplitter(n_cv=5), cal_name="lr", random_state=0
    )
    values = wrapped.compute_all_from_labels_probs(torch.tensor(y), torch.tensor(sharp))
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    options: dict = {"method": LogisticRegression(), "cv": cv}
    parts = decompose(y, sharp, **options)
    assert parts.calibration == pytest.approx(float(values["calib-err_logloss_lr_cv-5"]), abs=1e-6)
    assert parts.refinement == pytest.approx(float(values["refinement_logloss_lr_cv-5"]), abs=1e-6)
    scale = 2 if n_classes == 2 else 1
    ours = scale * calibration_loss(y, sharp, loss="brier", **options)
    assert ours == pytest.approx(float(values["calib-err_brier_lr_cv-5"]), abs=1e-6)
    if n_classes > 2:  # their binary L_p slices the recalibrated column but not the reference
        for norm in (1, 2, np.inf):
            name = f"calib-err_proper-L{norm:.10g}-binary-as-1d_lr_cv-5"
            assert lp_calibration_error(y, sharp, norm=norm, **options) == pytest.approx(float(values[name]), abs=1e-6)


@pytest.mark.parametrize("calibrator", ["venn-abers", "logistic"])
def test_tripled_rows_equal_a_weight_of_three(calibrator: str) -> None:
    p, y = sharpened(300, 2, 1.0)
    once = calibration_loss(y, p, method=calibrator)
    weighted = calibration_loss(y, p, method=calibrator, sample_weight=np.full(300, 3.0))
    for rows in (np.repeat(np.arange(300), 3), np.tile(np.arange(300), 3)):
        assert calibration_loss(y[rows], p[rows], method=calibrator) == pytest.approx(weighted, abs=1e-6)
    assert once == pytest.approx(weighted, abs=0.01)


class OneColumn(Flatten):
    """Predicts the second class alone, as a vector."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return super().predict_proba(X)[:, 1]


def test_predictions_of_the_second_class_alone(binary: Data) -> None:
    y, p = binary
    assert decompose(y, p, method=OneColumn()) == pytest.approx(decompose(y, p, method=Flatten()))
