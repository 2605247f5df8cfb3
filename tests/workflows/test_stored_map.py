"""Files calibrated by the stored map alone: the numbers of the calibrator, without scikit-learn."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant.files.tables.opening import open_table
from calibrant.files.tables.row_checks import Layout
from calibrant.files.tables.table_rows import RowReader
from calibrant.inputs.words import RequestError
from calibrant.workflows.applying import apply
from calibrant.workflows.loading import load_calibrator
from calibrant.workflows.stored_map import load_map, serving_cost

P = np.random.default_rng(0).dirichlet(np.ones(3), 300)
Y = np.array(["a", "b", "c"])[(P.cumsum(axis=1) > np.random.default_rng(1).random((300, 1))).argmax(axis=1)]
FRAME = pd.DataFrame(P, columns=["p_a", "p_b", "p_c"])


@pytest.fixture(params=["names", "no names", "logits", "scores", "segments"])
def stored(request, tmp_path):
    """A stored calibrator, and rows of a file for it."""
    kind, path, given = request.param, tmp_path / "cal.json", FRAME
    if kind == "segments":
        region = np.where(P[:, 0] > 0.3, "north", "west")
        fitted = calibrant.SegmentedCalibrator("ts").fit(FRAME, Y, segments={"region": region})
        given = FRAME.assign(region=region)
    elif kind == "names":
        fitted = calibrant.get_calibrator("sms").fit(FRAME[["p_c", "p_a", "p_b"]], Y)
    elif kind == "no names":
        fitted = calibrant.get_calibrator("svs").fit(P, Y)
    else:
        numbers = np.log(FRAME) if kind == "logits" else 100.0 * np.log(FRAME)
        fitted, given = calibrant.get_calibrator("ts", input=kind).fit(numbers, Y), numbers
    calibrant.save(fitted, path)
    return fitted, path, given


def test_the_map_gives_the_numbers_of_the_calibrator(stored, tmp_path):
    fitted, path, given = stored
    given.to_csv(tmp_path / "in.csv", index=False)
    tables = []
    for name, calibrator in (("calibrator", fitted), ("map", load_map(path))):
        layout = Layout(logits=fitted.takes_logits and not fitted.takes_scores, scores=fitted.takes_scores)
        reader = RowReader(open_table(tmp_path / "in.csv"), layout)
        done = apply(calibrator, reader, tmp_path / f"{name}.csv")
        assert set(done.classes) == {"a", "b", "c"}
        tables.append((tmp_path / f"{name}.csv").read_bytes())
    assert tables[0] == tables[1] != (tmp_path / "in.csv").read_bytes()


def test_damaged_files_and_files_of_folds_are_left_to_the_loader_that_can_say_what_is_wrong(stored, tmp_path):
    _, path, _ = stored
    document = json.loads(path.read_text())
    document["content"]["class"] = "NoCalibrator"
    path.write_text(json.dumps(document))
    assert load_map(path) is None
    assert load_map(tmp_path / "none.json") is None


def test_the_cost_of_a_row_is_said_unless_a_row_needs_more_than_predictions(stored):
    fitted, path, _ = stored
    assert serving_cost("no such file.json") == ""
    said = serving_cost(path)
    if hasattr(fitted, "segment_columns_"):
        assert said == ""
    else:
        assert re.fullmatch(r"\d+ kB; one row takes about \d+ µs with calibrant.runtime", said)


def test_percentages_are_remembered(tmp_path):
    fitted = calibrant.get_calibrator("ts").fit(P, Y)
    fitted.percentages_ = True
    calibrant.save(fitted, tmp_path / "cal.json")
    assert load_map(tmp_path / "cal.json").percentages_
    assert not hasattr(load_map(tmp_path / "cal.json"), "feature_names_in_")


def test_the_one_calibrator_of_a_classifier_is_loaded_and_several_are_refused(tmp_path):
    X = np.log(P[:, :2])
    for shared in (True, False):
        made = calibrant.CalibratedClassifier(LogisticRegression(), method="ts", ensemble=not shared, cv=2).fit(X, Y)
        calibrant.save(made, tmp_path / "cal.json")
        if shared:
            alone = load_calibrator(tmp_path / "cal.json")
            np.testing.assert_array_equal(alone.classes_, ["a", "b", "c"])
        else:
            with pytest.raises(RequestError, match="the 2 calibrators of a CalibratedClassifier"):
                load_calibrator(tmp_path / "cal.json")
