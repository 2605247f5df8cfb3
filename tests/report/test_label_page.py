"""The page on many labels: what it says, when, and in which order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from calibrant.cli import app
from calibrant.inputs.label_matrix import label_matrix
from calibrant.metrics import log_loss
from calibrant.metrics.result_types import Estimate
from calibrant.report.label_page import _opening, cross_calibrated, render_labels, saved


def drawn(power: float, n: int = 400) -> Any:
    rng = np.random.default_rng(0)
    p = rng.random((n, 3))
    return label_matrix((rng.random((n, 3)) < p ** [1, power, power]).astype(int), p, labels=["<a>", "b", "c"])


@pytest.fixture(scope="module")
def bad() -> str:
    """The page on two labels of three that are wrong."""
    return render_labels(drawn(3.0), "<script>")


def test_the_headline_says_whether_labels_are_wrong_and_calibration_helps(bad: str) -> None:
    assert "Calibrate these labels: their probabilities are wrong, and calibration helps" in bad
    assert "2 of 3 labels are predicted too often or too rarely" in bad
    assert "No evidence against the probabilities of these labels" in render_labels(drawn(1.0, 100), "labels.csv")
    assert "No evidence against the probabilities" in render_labels(drawn(1.0, 6), "labels.csv")


def test_names_are_escaped_and_the_worst_label_comes_first(bad: str) -> None:
    assert "<script>" not in bad
    assert "<td><a></td>" not in bad
    assert max(bad.index("<td>b</td>"), bad.index("<td>c</td>")) < bad.index("<td>&lt;a&gt;</td>")


def test_the_saving_is_the_fall_of_the_mean_log_loss() -> None:
    data = drawn(3.0, 150)
    after = cross_calibrated(data)
    found, share = saved(data, after, 0.9)
    losses = [log_loss(part.y.ravel(), part.on.ravel()) for part in (data, after)]
    assert np.isclose(found.value, losses[0] - losses[1])
    assert np.isclose(share.value, found.value / losses[0])
    assert found.low < found.value < found.high


@pytest.mark.parametrize(
    ("low", "miscounted", "tone", "headline"),
    [
        (0.01, ["b"], "bad", "Calibrate these labels: their probabilities are wrong, and calibration helps"),
        (0.01, [], "fair", "Calibrate these labels: their probabilities are wrong, and calibration helps"),
        (0.0, ["b"], "fair", "Some labels are predicted too often or too rarely; calibration is not shown to help"),
        (0.0, [], "good", "No evidence against the probabilities of these labels"),
    ],
)
def test_each_headline_and_its_tone(low: float, miscounted: list[str], tone: str, headline: str) -> None:
    data, gain = drawn(1.0, 50), Estimate(0.02, low, 0.03, 0.95)
    found: Any = SimpleNamespace(miscounted=miscounted, expected=data.on.sum(axis=0), observed=data.y.sum(axis=0))
    said = _opening(data, data, found, gain, gain)
    assert (said.tone, said.headline) == (tone, headline)
    assert [one.value for one in said.numbers[:2]] == [f"{part.sum() / 50:.2f}" for part in (data.on, data.y)]


def test_rows_of_one_group_are_not_calibrated() -> None:
    data = drawn(3.0, 20)
    single = label_matrix(data.y, data.on, groups=np.zeros(20))
    assert cross_calibrated(single) is single


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    data = drawn(3.0, 100)
    frame = pd.DataFrame(np.hstack([data.y, data.on]), columns=["a", "b", "c", "p_a", "p_b", "p_c"])
    frame.to_csv(tmp_path / "labels.csv", index=False)
    words = ["report", str(tmp_path / "labels.csv"), "--multilabel", "-o", str(tmp_path / "page.html")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "report on 100 rows and 3 labels" in done.output
    assert "Label by label, worst first" in (tmp_path / "page.html").read_text()
    refused = CliRunner().invoke(app, [*words, "--force", "--methods", "ts"])
    assert "--methods does not work with --multilabel" in refused.output
