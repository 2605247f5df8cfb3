"""What a file with a map may hold: every field at the ends of what is allowed, and just beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.steps import Columns, Scale
from calibrant.steps.map_documents import VERSION, FileError, canonical, checksum, map_parts, read_rule, version_fault

PLAIN = {"classes": ["a", "b"], "input": "logits", "renormalize": False, "columns": None, "method": "ts", "steps": []}
FIRST = [{"step": "columns", "index": [0]}]
TWO = [{"step": "columns", "index": [0, 1]}]
SCALE = {"step": "scale", "factor": 2.0, "shift": 0.0}


def column(name: object = "country", levels: object = None) -> dict[str, object]:
    return {"name": name, "levels": levels}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"logits": True, "columns": None, "scaling": None, "segments": {}, "names": None, "independent": False}),
        ({"input": "probabilities", "renormalize": True}, {"logits": False, "renormalize": True}),
        ({"input": "scores", "scaling": [SCALE]}, {"logits": True, "scaling": Scale(np.array(2.0), np.array(0.0))}),
        ({"classes": [0, 1.5]}, {"classes": [0, 1.5], "method": "ts"}),
        ({"independent": True, "classes": ["a"], "steps": FIRST}, {"independent": True, "classes": ["a"]}),
        ({"independent": True, "steps": TWO}, {"independent": True}),
        ({"independent": False, "segments": [column()], "steps": TWO}, {"segments": {"country": None}}),
        (
            {"segments": [column("x", ["u", "v"]), column("y", ["u"])], "steps": TWO},
            {"segments": {"x": ["u", "v"], "y": ["u"]}},
        ),
        ({"names": ["p", 1]}, {"names": ["p", 1]}),
        ({"names": ["p"]}, {"names": ["p"]}),
    ],
)
def test_a_map_in_a_file_is_read(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    found = map_parts({**PLAIN, **changes})
    assert {name: found[name] for name in expected} == expected
    assert map_parts({**PLAIN, "columns": [1, 0]})["columns"].tolist() == [1, 0]


THREE = {"classes": ["a", "b", "c"]}
LIST = "classes should be a list of at least two labels"
DIFFERENT = "classes should hold different texts or numbers"
FLAG = "independent should be true or false, and true only without segments and scaling"
INPUT = "input should be probabilities, logits or scores, renormalize true or false"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 2.0}, "its map holds 'temperature', which this version of calibrant does not know"),
        ({"classes": ["a"], "steps": FIRST}, LIST),
        ({"independent": True, "classes": []}, LIST),
        ({"classes": "ab"}, LIST),
        ({"classes": ["a", None]}, DIFFERENT),
        ({"classes": [1, 1.0]}, DIFFERENT),
        ({"independent": "yes"}, FLAG),
        ({"independent": True, "segments": [column()], "steps": TWO}, FLAG),
        ({"independent": True, "input": "scores", "scaling": [SCALE], "steps": TWO}, FLAG),
        ({"input": "odds"}, INPUT),
        ({"renormalize": 1}, INPUT),
        ({"input": "scores"}, "a map of scores, and no other, should hold their scaling"),
        ({"scaling": [SCALE]}, "a map of scores, and no other, should hold their scaling"),
        ({"input": "scores", "scaling": [SCALE, SCALE]}, "one step that scales a number of each class"),
        ({"input": "scores", "scaling": TWO}, "one step that scales a number of each class"),
        ({"input": "scores", "scaling": [{**SCALE, "factor": [1.0] * 3}]}, "factor should hold 2 numbers"),
        ({"columns": [0]}, "columns should be a permutation"),
        ({"columns": [1, 2]}, "columns should be a permutation"),
        ({"columns": "10"}, "columns should be a permutation"),
        ({"steps": FIRST}, "the last step should return one column per class"),
        ({"independent": True, "steps": []}, "the last step should return one column per class"),
        ({"segments": [column()], "steps": []}, "the last step should return one column per class"),
        ({"names": ["a", "b", "c"]}, "one name per class"),
        ({**THREE, "names": ["a"]}, "one name per class"),
        ({**THREE, "names": ["a", "b"]}, "one name per class"),
        ({"names": []}, "one name per class"),
        ({"names": ["a", "a"]}, "different texts or whole numbers"),
        ({"names": ["a", 0.5]}, "different texts or whole numbers"),
        ({"segments": [], "steps": TWO}, "segments should be a list of columns"),
        ({"segments": {"name": "x"}, "steps": TWO}, "segments should be a list of columns"),
        ({"segments": [column(1)], "steps": TWO}, "a column of segments should hold name, a text, and levels"),
        ({"segments": [{"name": "x"}], "steps": TWO}, "a column of segments should hold"),
        ({"segments": ["x"], "steps": TWO}, "a column of segments should hold"),
        ({"segments": [column(levels=[])], "steps": TWO}, "levels should be texts, or null"),
        ({"segments": [column(levels=["u", 1])], "steps": TWO}, "levels should be texts, or null"),
        ({"segments": [column(levels="uv")], "steps": TWO}, "levels should be texts, or null"),
        ({"segments": [column(levels=["u", "u"])], "steps": TWO}, "levels should be different texts"),
        ({"segments": [column(), column()], "steps": TWO}, "columns of segments should have different names"),
    ],
)
def test_what_a_map_in_a_file_may_not_hold(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FileError, match=f"This file is damaged: .*{message}"):
        map_parts({**PLAIN, **changes})


def test_what_a_map_in_a_file_lacks() -> None:
    for name in PLAIN:
        with pytest.raises(FileError, match=f"This file is damaged: '{name}'"):
            map_parts({key: value for key, value in PLAIN.items() if key != name})
    with pytest.raises(FileError, match="its map is not an object"):
        map_parts([PLAIN])
    assert isinstance(map_parts({**PLAIN, "steps": TWO})["steps"][0], Columns)


def test_versions_that_are_read() -> None:
    assert version_fault({"version": 1}) == version_fault({"version": VERSION}) == ""
    assert version_fault({"version": 0}) == "This file is damaged: its version is 0."
    assert version_fault({"version": "2"}) == "This file is damaged: its version is '2'."
    assert "written by calibrant '9.9'" in version_fault({"version": VERSION + 1, "calibrant": "9.9"})


def test_a_rule_is_read_where_its_checksum_is_right() -> None:
    rule = {"costs": [[0.0, 1.0], [2.0, 0.0]], "actions": ["wait", "act"]}
    found = read_rule({"rule": rule, "rule_sha256": checksum(canonical(rule))}, ["a", "b"])
    assert found is not None
    assert found.to_json() == rule
    assert read_rule({}, ["a", "b"]) is None
    with pytest.raises(FileError, match="its decision rule is wrong, it does not match its checksum"):
        read_rule({"rule": rule, "rule_sha256": checksum("")}, ["a", "b"])
    wrong = {**rule, "costs": [[0.0, 1.0]]}
    with pytest.raises(FileError, match="costs should have a row for each of at least two actions"):
        read_rule({"rule": wrong, "rule_sha256": checksum(canonical(wrong))}, ["a", "b"])
    assert canonical({"b": [1, "é"], "a": 0.5}) == '{"b":[1,"\\u00e9"],"a":0.5}'
