"""The table of a run, against numbers worked out by hand, and the demonstration that prints it."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from calibrant.bench.study.run_summary import render, summarise
from tests.needs import needs

pd = needs("pandas")
pytestmark = pytest.mark.bench

COLUMNS = ["benchmark", "dataset", "model", "fold", "method", "status", "logloss", "brier", "fit_seconds"]


def results() -> pd.DataFrame:
    rows = []
    # dataset, model: losses of none, a, b
    for dataset, model, none, a, b in (("x", "m", 1.0, 0.9, 0.8), ("x", "n", 1.0, 0.7, 0.9), ("y", "m", 0.5, 0.6, 0.4)):
        for method, loss in (("none", none), ("a", a), ("b", b)):
            rows.append(("s", dataset, model, 0, method, "ok", loss, loss / 2, 0.25))
    return pd.DataFrame(rows, columns=COLUMNS)


def test_changes_and_ranks_by_hand() -> None:
    table = summarise(results())[0].set_index("method")
    assert table.loc["a", "logloss"] == pytest.approx((-0.1 - 0.3 + 0.1) / 3)
    assert table.loc["a", "median_logloss"] == pytest.approx(-0.1)
    assert table.loc["b", "brier"] == pytest.approx(-0.4 / 6)
    assert table.loc["a", "better"] == pytest.approx(2 / 3)
    # x: a -0.2, b -0.15, none 0; y: b -0.1, none 0, a +0.1
    assert table["rank"].to_dict() == {"b": 1.5, "a": 2.0, "none": 2.5}
    assert list(table.index) == ["b", "a", "none"]


def test_what_did_not_finish_is_counted_and_its_dataset_not_ranked() -> None:
    frame = results()
    frame.loc[1, ["status", "logloss", "brier", "fit_seconds"]] = ["timeout", None, None, None]
    table = summarise(frame)[0].set_index("method")
    assert table["unfinished"].to_dict() == {"a": 1, "b": 0, "none": 0}
    # x: not all finished; y: b -0.1, none 0, a +0.1
    assert table["rank"].to_dict() == {"a": 3.0, "b": 1.0, "none": 2.0}
    assert "unfinished" in render(summarise(frame)[0])


def test_demonstration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant import demo
    from calibrant.bench.runs import method_spec

    monkeypatch.setattr(method_spec, "native_methods", lambda: [method_spec.make_spec(n) for n in ("none", "ts")])
    said = io.StringIO()
    folder = demo.main(tmp_path, stream=said)
    table = pd.read_parquet(folder / "results.parquet")
    # 16 datasets, 4 models, 3 sizes, 2 methods
    assert len(table) == 384
    assert set(table["draw"]) == set(demo.SIZES)
    assert (table["status"] == "ok").all()
    text = said.getvalue()
    assert max(map(len, text[: text.index("fits in")].splitlines())) < 80
    command = shlex.split(text[text.index("run:\n") + 5 :].replace("\\\n", ""))
    assert Path(command[0]).absolute() == Path(sys.executable)
    assert command[1:-1] == ["-m", "calibrant", "bench", "report", str(tmp_path), "--out"]
    assert subprocess.run([*command[:5], "--help"], capture_output=True, text=True, check=True).stdout
    assert "Three and more classes: diamonds, gss_occupation" in text
    assert "Two classes: arrests, crash_deaths" in text
    assert text.count("\nts ") == 2
    assert "With two classes ts lowers the mean log loss by" in text
    assert "With three and more classes ts lowers the mean log loss by" in text
