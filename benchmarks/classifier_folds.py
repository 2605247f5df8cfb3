"""How `CalibratedClassifier` uses its folds: `ensemble="auto"`, `True` and `False`, and the classifier alone.

    python benchmarks/classifier_folds.py [--splits 3] [--datasets wine digits ...]

Real tables (extra `bench`), seven kinds of scikit-learn classifiers, at most 600 training rows, the rest tests. The
classifier alone is fitted to the same training rows. Every result is a line of benchmarks/out/classifier_folds.jsonl,
and a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import timing  # first: it limits the threads

# isort: split
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from calibrant import CalibratedClassifier
from calibrant.bench.building.datasets import load_dataset

DATASETS = (
    "digits", "wine", "breast_cancer", "hawks", "olive", "fishing", "beps_vote", "leaves", "cells", "credit",
    "email_spam", "pima",
)  # fmt: skip
TRAINING = 600
CLASSIFIERS = {
    "naive Bayes": GaussianNB(),
    "forest": RandomForestClassifier(100, random_state=0),
    "boosted trees": HistGradientBoostingClassifier(max_iter=50, random_state=0),
    "logistic": LogisticRegression(max_iter=2000),
    "LDA": LinearDiscriminantAnalysis(),
    "network": MLPClassifier((50,), max_iter=300, random_state=0),
    "SVM": SVC(),  # no probabilities of its own
}
KINDS = {'"auto"': "auto", "True": True, "False": False}
OUT = timing.OUT / "classifier_folds.jsonl"


def model(name: str) -> Any:
    """A pipeline that takes tables with categories and missing numbers."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False, min_frequency=5)
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (texts, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, CLASSIFIERS[name])


def one(dataset: str, name: str, split: int) -> dict[str, Any]:
    """Test log losses and seconds of a classifier alone and in each kind of `CalibratedClassifier`."""
    table = load_dataset(dataset, max_rows=5000)
    X, X_test, y, y_test = train_test_split(
        table.features,
        table.labels,
        train_size=min(TRAINING, int(0.6 * len(table.labels))),
        stratify=table.labels,
        random_state=split,
    )
    found: dict[str, Any] = {"dataset": dataset, "classifier": name, "split": split, "k": len(table.classes)}
    candidates = {
        "alone": model(name),
        **{kind: CalibratedClassifier(model(name), ensemble=value) for kind, value in KINDS.items()},
    }
    for kind, candidate in candidates.items():
        start = time.perf_counter()
        fitted = candidate.fit(X, y)
        if not hasattr(fitted, "predict_proba"):
            continue
        middle = time.perf_counter()
        p = fitted.predict_proba(X_test)
        found[kind] = log_loss(y_test, np.maximum(p, 1e-15), labels=range(len(table.classes)))
        found[f"{kind}, fit"], found[f"{kind}, predict"] = middle - start, time.perf_counter() - middle
    return found


def tables(rows: list[dict[str, Any]]) -> str:
    """Mean log losses by classifier, and how often each kind is the best one or worse than the classifier alone."""
    results, kinds = pd.DataFrame(rows), list(KINDS)
    # One number for each pair of dataset and classifier: splits of one table are not independent.
    means = results.groupby(["dataset", "classifier"], as_index=False).mean(numeric_only=True)
    named = [f"`{kind}`" for kind in kinds]
    lines = [
        f"| classifier | alone | {' | '.join(named)} | best: {' / '.join(named)} | "
        f"1 % worse than alone: {' / '.join(named)} |",
        "|---|" + "---|" * (len(kinds) + 3),
    ]
    for name, part in [*((n, means[means.classifier == n]) for n in CLASSIFIERS), ("all", means)]:
        own = part[part.alone.notna()]
        values = " | ".join(f"{part[kind].mean():.4f}" for kind in kinds)
        alone = f"{own.alone.mean():.4f}" if len(own) and (name != "all") else "–"
        best = part[kinds].idxmin(axis=1)
        wins = " / ".join(str((best == kind).sum()) for kind in kinds)
        harm = " / ".join(str((own[kind] > 1.01 * own.alone).sum()) for kind in kinds)
        lines.append(f"| {name} | {alone} | {values} | {wins} of {len(part)} | {harm} of {len(own)} |")
    seconds = [
        " and ".join(f"{results[f'{kind}, {what}'].median():.3f}" for kind in kinds) for what in ("fit", "predict")
    ]
    apart = []
    for other in kinds[1:]:
        by_dataset = (means[kinds[0]] - means[other]).groupby(means.dataset).mean()
        lower = f"lower on {(by_dataset < 0).sum()} of {len(by_dataset)} datasets"
        apart.append(f"{by_dataset.mean():+.4f} against `{other}` ({lower})")
    return "\n".join(
        [
            *lines,
            "",
            f"Mean log loss of `{kinds[0]}`: {' and '.join(apart)}. Median seconds of a fit: {seconds[0]}; of a "
            f"prediction: {seconds[1]}.",
        ]
    )


def main(datasets: list[str], splits: int) -> None:
    OUT.parent.mkdir(exist_ok=True)
    rows = [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []
    done = {(row["dataset"], row["classifier"], row["split"]) for row in rows}
    with Path(OUT).open("a") as log, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for split in range(splits):
            for dataset in datasets:
                for name in CLASSIFIERS:
                    if (dataset, name, split) not in done:
                        rows.append(one(dataset, name, split))
                        log.write(json.dumps(rows[-1]) + "\n")
                        log.flush()
    print(tables(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="*", default=list(DATASETS))
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.datasets, arguments.splits)
