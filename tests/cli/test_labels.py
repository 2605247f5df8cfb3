"""Files of many labels on the command line, against the same in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import calibrant
from calibrant.cli import app
from calibrant.inputs.words import RequestError
from calibrant.metrics import multilabel_metrics
from calibrant.workflows.label_files import label_pairs

NAMES = ["art", "news", "war"]


def run(*words: Any, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    p = rng.random((300, 3)).round(6)
    y = (rng.random((300, 3)) < p**2).astype(int)
    frame = pd.DataFrame(y, columns=NAMES)
    frame.insert(0, "id", [f"row {i}" for i in range(300)])
    frame["weight"], frame["doc"] = rng.integers(1, 4, 300), [f"d{i // 3:03}" for i in range(300)]
    for j, name in enumerate(NAMES):
        frame[f"p_{name}"] = p[:, j]
    frame.to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path / "labels.csv"


def test_fit_apply_and_evaluate_do_what_python_does(table: Path) -> None:
    frame, folder = pd.read_csv(table), table.parent
    p, y = frame[[f"p_{name}" for name in NAMES]], frame[NAMES]
    out = run("fit", table, "--multilabel", "-o", folder / "cal.json", "--weight", "weight", "--group-by", "doc")
    assert "fitted to 300 rows" in out
    assert "p_art = art" in out
    alone = calibrant.MultilabelCalibrator().fit(p, y, frame["weight"], groups=frame["doc"])
    frame.drop(columns=NAMES).to_csv(folder / "new.csv", index=False)
    assert "300 rows calibrated" in run("apply", folder / "cal.json", folder / "new.csv", "-o", folder / "out.csv")
    found = pd.read_csv(folder / "out.csv")
    assert list(found.columns) == ["id", "weight", "doc", "p_art", "p_news", "p_war"]
    assert np.allclose(found[p.columns], alone.predict_proba(p), atol=1e-9)
    run("apply", folder / "cal.json", table, "-o", folder / "both.csv", "--suffix", "_cal")
    assert np.allclose(pd.read_csv(folder / "both.csv")["p_war_cal"], found["p_war"])
    value = json.loads(run("evaluate", table, "--multilabel", "--ci", "--json"))
    expected = multilabel_metrics(y, p)
    assert np.isclose(value["macro"]["ece"], expected.macro["ece"])
    assert value["labels"]["label"] == NAMES
    assert value["micro"]["log_loss"]["low"] < expected.micro["log_loss"].value < value["micro"]["log_loss"]["high"]
    text = run("evaluate", table, "--multilabel")
    assert "300 rows, 3 labels" in text
    assert expected.verdict in text


def test_rows_that_cannot_be_used_are_named_or_skipped(table: Path) -> None:
    frame = pd.read_csv(table)
    frame.loc[4, "p_news"], frame.loc[7, "war"] = 1.5, 3
    frame.to_csv(table, index=False)
    out = run("evaluate", table, "--multilabel", code=1)
    assert "p_news 1.5" in out
    assert "probabilities lie between 0 and 1, and labels are 0 or 1" in out
    out = run("fit", table, "--multilabel", "--on-error", "skip", "-o", table.with_suffix(".json"))
    assert "fitted to 298 rows" in out
    assert "Skipped 2 rows" in out


def test_options_of_classes_and_commands_of_classes_are_refused(table: Path) -> None:
    out = run("evaluate", table, "--multilabel", "--label", "art", code=2)
    assert "--label does not work with --multilabel" in out
    for command in ("fit", "evaluate", "report"):
        more = [] if command == "evaluate" else ["-o", table.parent / "out"]
        out = run(command, table, "--multilabel", "--positive", "art", *more, code=2)
        assert "--positive does not work with --multilabel" in out
    run("fit", table, "--multilabel", "-o", table.with_suffix(".json"))
    out = run("watch", table.with_suffix(".json"), table, "--state", table.parent / "state.json", code=2)
    skipping = run(
        "apply", table.with_suffix(".json"), table, "-o", table.parent / "x.csv", "--on-error", "skip", code=2
    )
    assert "--on-error skip do not work with multi-label calibrators" in skipping
    assert "is a multi-label calibrator; this command is for classes" in " ".join(out.split())


def test_labels_are_found_by_name() -> None:
    assert label_pairs(["a", "b", "a_score", "b_score", "x"]) == {"a": "a_score", "b": "b_score"}
    assert label_pairs(["p_a", "p_b", "y_a", "y_b", "x"]) == {"y_a": "p_a", "y_b": "p_b"}
    assert label_pairs(["p_a", "p_b", "y_a", "y_b"], ["p_*"]) == {"y_a": "p_a", "y_b": "p_b"}
    assert label_pairs(["a", "b", "m1_a", "m1_b", "m2_a", "m2_b"], ["m2_*"]) == {"a": "m2_a", "b": "m2_b"}
    for columns, probs in ((["u", "v"], None), (["a", "p_a", "p_b"], ["p_*"])):
        with pytest.raises(RequestError, match="no label columns with matching probability columns were found"):
            label_pairs(columns, probs)


def test_a_report_of_labels_is_called_like_its_file_and_takes_probabilities(table: Path) -> None:
    page = table.with_name("r.html")
    assert "report needs probabilities" in run("report", table, "--multilabel", "--logits", "-o", page, code=2)
    assert "evaluate needs probabilities" in run("evaluate", table, "--multilabel", "--logits", code=2)
    run("report", table, "--multilabel", "-o", page)
    assert "labels.csv" in page.read_text().split("<h1", 1)[1].split("</h1>")[0]
