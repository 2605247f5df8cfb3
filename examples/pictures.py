"""Draw every picture of calibrant.plots from predictions of scikit-learn models on bundled data.

Usage: python examples/pictures.py [folder]    (the folder is made; by default ./pictures)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant import AutoCalibrator, LogisticCalibrator, MasterScale, SMSCalibrator
from calibrant.bench import load_embedded
from calibrant.metrics import murphy_diagram
from calibrant.plots import (
    BeforeAfterDisplay,
    CalibrationMapDisplay,
    ClasswiseReliabilityDisplay,
    CorrectionMatrixDisplay,
    DecisionCurveDisplay,
    GradeDisplay,
    MurphyDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
)


def predictions(load: Any, model: Any, n_train: float) -> tuple[Any, Any, Any, Any]:
    """Predictions and labels of two halves of what the model was not trained on: calibration and test."""
    data = load()
    y = data.target_names[data.target] if hasattr(data, "target_names") else data.target
    X, X_rest, y, y_rest = train_test_split(data.data, y, train_size=n_train, random_state=0, stratify=y)
    X_cal, X_test, y_cal, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0, stratify=y_rest)
    model.fit(X, y)
    return model.predict_proba(X_cal), y_cal, model.predict_proba(X_test), y_test


def spam() -> BeforeAfterDisplay:
    """The picture of the first page: a spam filter, calibrated on 1000 mails and tested on 3000."""
    data = load_embedded("spam7", "LR")
    p, y = np.vstack([data.probas_cal, data.probas_test]), np.concatenate([data.labels_cal, data.labels_test])
    calibrator = AutoCalibrator().fit(p[:1000], y[:1000])
    _, axes = plt.subplots(1, 2, figsize=(5.8, 3.7), layout="compressed")
    display = BeforeAfterDisplay.from_estimator(calibrator, p[1000:], y[1000:], axes=axes)
    for ax, title in zip(axes, ("as predicted", "calibrated")):
        ax.set(title=title, xlabel="predicted probability of spam")
    axes[0].set_ylabel("share that is spam")
    return display


def decisions() -> dict[str, Any]:
    """The spam filter's net benefit, and the share of errors of what it answers, as predicted and calibrated."""
    data = load_embedded("spam7", "LR")
    p, y = np.vstack([data.probas_cal, data.probas_test]), np.concatenate([data.labels_cal, data.labels_test])
    both = {"as predicted": p[1000:], "calibrated": AutoCalibrator().fit(p[:1000], y[:1000]).predict_proba(p[1000:])}
    curve = risk = None
    for name, q in both.items():
        curve = DecisionCurveDisplay.from_predictions(y[1000:], q, name=name, ax=curve and curve.ax_)
        risk = RiskCoverageDisplay.from_predictions(y[1000:], q, name=name, ax=risk and risk.ax_)
    return {"decision-curve": curve, "risk-coverage": risk}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
    folder.mkdir(parents=True, exist_ok=True)

    forest = RandomForestClassifier(random_state=0)
    p_cal, y_cal, p_test, y_test = predictions(load_digits, forest, 0.4)
    sms = SMSCalibrator(input_smoothing="auto").fit(p_cal, y_cal)
    pictures = {
        "top-label": ReliabilityDisplay.from_predictions(y_test, p_test, name="random forest"),
        "before-after": BeforeAfterDisplay.from_estimator(sms, p_test, y_test),
        "class-wise": ClasswiseReliabilityDisplay.from_predictions(y_test, p_test, max_classes=4),
        "correction-matrix": CorrectionMatrixDisplay.from_estimator(sms),
    }
    p_cal, y_cal, p_test, y_test = predictions(load_breast_cancer, GaussianNB(), 0.3)
    binary = LogisticCalibrator(classes=["benign", "malignant"]).fit(p_cal, y_cal)
    pictures["map-of-two-classes"] = CalibrationMapDisplay.from_estimator(binary)
    p_cal, y_cal, p_test, y_test = predictions(load_wine, RandomForestClassifier(30, max_depth=2, random_state=0), 0.3)
    three = SMSCalibrator(input_smoothing="auto").fit(p_cal, y_cal)
    pictures |= decisions()
    pictures["map-of-three-classes"] = CalibrationMapDisplay.from_estimator(three)

    mails = load_embedded("spam7", "LR")
    scale = MasterScale([0.2, 0.3, 0.5, 0.8], names="ABCDE")
    pictures["grades"] = GradeDisplay(scale.backtest(mails.labels_test, mails.probas_test)).plot(log=False)
    after = AutoCalibrator().fit(mails.probas_cal, mails.labels_cal).predict_proba(mails.probas_test)
    pictures["murphy"] = MurphyDisplay(murphy_diagram(mails.labels_test, after, mails.probas_test)).plot()

    for name, display in {**pictures, "spam": spam()}.items():
        # The first page scales its picture down.
        display.figure_.savefig(folder / f"{name}.png", dpi=144 if name == "spam" else 90)
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main()
