"""What skl2onnx makes of calibrated classifiers: scikit-learn's own beside those of calibrant.

Each classifier is calibrated by both packages with the same methods on the same rows, converted, and run by ONNX
Runtime in single precision. Prints the largest difference of a probability from `predict_proba` and puts a table into
docs/whole-models.md. Usage: python benchmarks/whole_models.py
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import timing  # noqa: F401  first: it limits the threads

# isort: split
import numpy as np
import onnxruntime
import skl2onnx
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from calibrant import CalibratedClassifier
from calibrant.writers.whole_models import register_with_skl2onnx

CLASSIFIERS = {
    "logistic regression": LogisticRegression(),
    "random forest": RandomForestClassifier(30, random_state=0),
    "gradient boosting": GradientBoostingClassifier(n_estimators=20, random_state=0),
    "linear SVM": LinearSVC(random_state=0),
    "naive Bayes": GaussianNB(),
}
METHODS = ("sigmoid", "isotonic", "temperature")
SETS = {2: load_breast_cancer, 3: load_wine}
DOCS = Path(__file__).parents[1] / "docs" / "whole-models.md"
START, END = "<!-- whole models: benchmarks/whole_models.py -->\n", "<!-- end of whole models -->\n"


def difference(model: Any, X: Any) -> str:
    """The largest difference of a probability, or that the conversion fails."""
    try:
        converted = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
        session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
        found = session.run(None, {"X": X})[1]
    except Exception as error:  # whatever it is, there is no model
        return "refused" if "single precision" in str(error) else "fails"
    return f"{np.abs(found - model.predict_proba(X)).max():.0e}"


def cases(k: int) -> Any:
    """Unfitted models of both packages: name, scikit-learn's, ours, and rows to fit them to."""
    X, y = SETS[k](return_X_y=True)
    X = StandardScaler().fit_transform(X).astype(np.float32)
    half = np.arange(len(y)) % 2 == 0
    for name, classifier in CLASSIFIERS.items():
        for method in METHODS:
            frozen = FrozenEstimator(classifier.fit(X[half], y[half]))
            pipeline = make_pipeline(StandardScaler(), classifier)
            for how, inner, rows in (
                ("folds", classifier, slice(None)),
                ("prefit", frozen, ~half),
                ("pipeline", pipeline, slice(None)),
            ):
                models = [make(inner, method=method) for make in (CalibratedClassifierCV, CalibratedClassifier)]
                yield f"{name}, {k} classes", method, how, [model.fit(X[rows], y[rows]) for model in models], X


def main() -> None:
    warnings.simplefilter("ignore")
    register_with_skl2onnx()
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for k in SETS:
        for name, method, how, models, X in cases(k):
            cells = [difference(model, X) for model in models]
            rows.setdefault((name, method), {})[how] = f"{cells[0]} / {cells[1]}"
            print(name, method, how, *cells, flush=True)
    hows = ("folds", "prefit", "pipeline")
    head = "| classifier | method | folds | `FrozenEstimator` | pipeline inside |\n|---|---|---|---|---|\n"
    text = head + "".join(
        f"| {name} | {method} | {' | '.join(row[how] for how in hows)} |\n" for (name, method), row in rows.items()
    )
    page = DOCS.read_text(encoding="utf-8")
    before, after = page[: page.index(START) + len(START)], page[page.index(END) :]
    DOCS.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
