"""A stored calibrator for commands that only predict: its map, which needs NumPy alone and loads quickly."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import numpy as np

from calibrant.runtime import Map, load
from calibrant.steps.map_documents import FileError, canonical, checksum
from calibrant.typing import AnyArray, TableLike

#: How often a row is predicted to tell how long it takes.
_TRIES = 100


class StoredMap:
    """A stored map with what commands ask of a calibrator; `percentages` as in the file that it was fitted to."""

    def __init__(self, fitted: Map, *, percentages: bool = False) -> None:
        self._fitted, self.independent = fitted, fitted.independent
        self._column_order = fitted.columns
        self.classes_ = np.asarray(fitted.classes)
        self.takes_scores, self.takes_logits = fitted.scaling is not None, fitted.logits
        self.renormalize, self.percentages_ = fitted.renormalize, percentages
        if fitted.names is not None and all(isinstance(name, str) for name in fitted.names):
            self.feature_names_in_ = fitted.names
        self.segment_columns_: dict[str, AnyArray] = {
            name: np.zeros(0) if levels is None else np.array(levels) for name, levels in fitted.segments.items()
        }

    def predict_proba(self, X: TableLike, *, segments: TableLike | None = None) -> AnyArray:
        """Calibrated probabilities, as `Map.predict_proba` gives them."""
        return replace(self._fitted, renormalize=self.renormalize).predict_proba(X, segments=segments)


def load_map(path: str | os.PathLike[str]) -> StoredMap | None:
    """The map in a file of `calibrant.save`; None where loading the calibrator works, or can say what is wrong."""
    try:
        fitted = load(path)
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        content = document["content"]
        whole = checksum(canonical(content)) == document["sha256"]
        percentages = content["state"].get("percentages_") is True
    except (FileError, OSError, KeyError, AttributeError, TypeError, ValueError):
        return None
    return StoredMap(fitted, percentages=percentages) if whole else None


def serving_cost(path: str | os.PathLike[str]) -> str:
    """How large a stored map is and how long one row takes, in words; nothing if it takes more than predictions."""
    stored = load_map(path)
    if stored is None or stored.segment_columns_:
        return ""
    row, seconds = np.full((1, len(stored.classes_)), 1.0 / len(stored.classes_)), []
    try:
        for _ in range(_TRIES):
            start = time.process_time()
            stored.predict_proba(row)
            seconds.append(time.process_time() - start)
    except ValueError:  # a map that takes something else beside predictions
        return ""
    size = os.path.getsize(path)
    spelled = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"
    return f"{spelled}; one row takes about {1e6 * min(seconds):.0f} µs with calibrant.runtime"
