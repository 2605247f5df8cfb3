"""Files with a map that nobody wrote: one line that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calibrant import get_calibrator, runtime, save
from calibrant.steps import Log, Scale, Softmax
from calibrant.steps.map_documents import canonical, checksum


def _saved(path: Path) -> dict[str, Any]:
    save(get_calibrator("ts").fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1]), path)
    return dict(json.loads(path.read_text()))


@pytest.mark.parametrize("classes", [[[], []], [0, [[]]], ["a", "a"], [{}, 1], [None, 1]])
def test_classes_that_are_no_labels(tmp_path: Path, classes: list[Any]) -> None:
    path = tmp_path / "cal.json"
    document = _saved(path)
    document["map"]["classes"] = classes
    document["map_sha256"] = checksum(canonical(document["map"]))
    path.write_text(json.dumps(document))
    with pytest.raises(runtime.FileError, match=r"cal\.json: .*classes should"):
        runtime.load(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": NaN}'])
def test_json_that_python_cannot_or_should_not_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cal.json"
    path.write_text(text)
    with pytest.raises(runtime.FileError, match=r"cal\.json: This is not a calibrator file"):
        runtime.load(path)


def test_steps_that_are_valid_but_give_no_probabilities_are_refused() -> None:
    changed = runtime.Map(["no", "yes"], [Log(), Softmax(), Scale(1e9)])
    with pytest.raises(runtime.FileError, match="does not give probabilities"):
        changed.predict_proba([[0.4, 0.6]])
