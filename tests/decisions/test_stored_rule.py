"""A rule kept with a calibrator: decisions, files, forged files, and what becomes of it when the calibrator changes."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import DecisionRule, adapt, get_calibrator, runtime
from calibrant.files.stored.encoding import CalibratorFileError
from calibrant.steps.map_documents import canonical, checksum

PAIR = DecisionRule(false_positive=1, false_negative=20)


def fitted() -> Any:
    rng = np.random.default_rng(0)
    p = rng.random(300)
    return get_calibrator("ts").fit(p, (rng.random(300) < p**2).astype(int))


def triage() -> Any:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = np.array(["flu", "healthy", "sepsis"])[(p.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)]
    costs = {
        "home": {"flu": 5, "sepsis": "stay", "healthy": 0},
        "ward": {"flu": 4, "sepsis": 0, "healthy": 9},
        "ask": 3,
    }
    return get_calibrator("sms").fit(p, y).set_rule(DecisionRule(costs, classes=["sepsis", "flu", "healthy"])), p


def test_decide_is_the_rule_on_calibrated_probabilities(tmp_path: Any) -> None:
    calibrator, p = triage()
    amounts = {"stay": np.linspace(0, 50, len(p))}
    expected = calibrator.rule_.decide(calibrator.predict_proba(p), amounts)
    assert set(expected) == {"home", "ward", "ask"}
    assert calibrator.decide(p, amounts).tolist() == expected.tolist()
    calibrant.save(calibrator, tmp_path / "cal.json")
    again = calibrant.load(tmp_path / "cal.json")
    assert again.rule_.to_dict() == calibrator.rule_.to_dict()
    assert again.decide(p, amounts).tolist() == expected.tolist()
    assert runtime.load(tmp_path / "cal.json").decide(p, amounts) == expected.tolist()
    with pytest.raises(ValueError, match="the costs name the amount 'stay', which was not given"):
        again.decide(p)


def test_a_rule_without_names_takes_those_of_the_calibrator(tmp_path: Any) -> None:
    calibrator = fitted().set_rule(DecisionRule([[0, 20], [1, 0], [0.5, 0.5]]))
    calibrant.save(calibrator, tmp_path / "cal.json")
    assert calibrant.load(tmp_path / "cal.json").rule_.actions == [0, 1, 2]
    assert calibrator.rule_.classes == [0, 1]


def test_a_rule_goes_with_an_adapted_calibrator_and_not_with_a_new_fit() -> None:
    calibrator = fitted().set_rule(PAIR)
    assert adapt(calibrator, prior={0: 0.9, 1: 0.1}).rule_.threshold == 1 / 21
    calibrator.fit([0.1, 0.9, 0.6], [0, 1, 1])
    with pytest.raises(ValueError, match="has no decision rule: call set_rule"):
        calibrator.decide([0.5])
    assert "rule_" not in vars(fitted().set_rule(PAIR).set_rule(None))


def test_rules_of_other_classes_and_other_things_are_refused() -> None:
    with pytest.raises(ValueError, match="has costs for 'a', 'b', but the classes are 0, 1"):
        fitted().set_rule(DecisionRule([[0, 1], [1, 0]], classes=["a", "b"]))
    with pytest.raises(TypeError, match="set_rule takes a DecisionRule, got list"):
        fitted().set_rule([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="This map has no decision rule"):
        fitted().to_map().decide([0.5])


def forged(path: Any, part: str, change: Any) -> None:
    """The file with something else in one of its parts, and a checksum that matches."""
    document = json.loads(path.read_text())
    change(document[part])
    document["sha256" if part == "content" else f"{part}_sha256"] = checksum(canonical(document[part]))
    path.write_text(json.dumps(document))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"costs": [[0.0, 20.0, 1.0], [1.0, 0.0, 1.0]]}, "column"),
    ({"costs": [[0.0, -20.0], [1.0, 0.0]]}, "from 0 to 1e"),
    ({"costs": [[0.0, 1e200], [1.0, 0.0]]}, "from 0 to 1e"),
    ({"costs": [[0.0, None], [1.0, 0.0]]}, "from 0 to 1e"),
    ({"costs": [[0.0, 20.0]]}, "two"),
    ({"costs": "drop"}, "row"),
    ({"actions": [0, 1, 2]}, "actions"),
    ({"actions": [0, 0]}, "one name per row"),
    ({"actions": [0, [1]]}, "one name per row"),
]


@pytest.mark.parametrize("read", [calibrant.load, runtime.load])
@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_forged_rule_is_refused(wrong: Any, message: str, read: Any, tmp_path: Any) -> None:
    path = tmp_path / "cal.json"
    calibrant.save(fitted().set_rule(PAIR), path)
    forged(path, "rule", lambda rule: rule.update(wrong))
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert isinstance(caught.value, (CalibratorFileError, runtime.FileError)), caught.value
    assert re.match(f"{re.escape(str(path))}: This file is damaged", str(caught.value))


@pytest.mark.parametrize("read", [calibrant.load, runtime.load])
def test_a_rule_without_its_checksum_is_refused(read: Any, tmp_path: Any) -> None:
    path = tmp_path / "cal.json"
    calibrant.save(fitted().set_rule(PAIR), path)
    path.write_text(path.read_text().replace("20.0", "2.0"))
    with pytest.raises(ValueError, match="does not match its checksum"):
        read(path)


def test_something_else_in_the_place_of_a_rule_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "cal.json"
    for value in ("rm", {"$": "dict", "items": []}, [1]):
        calibrant.save(fitted().set_rule(PAIR), path)
        forged(path, "content", lambda content, value=value: content["state"].update(rule_=value))
        with pytest.raises(CalibratorFileError, match="rule_ should be a decision rule"):
            calibrant.load(path)


def test_a_rule_does_not_change_the_audit_record(tmp_path: Any) -> None:
    p, y = [0.1, 0.2, 0.7, 0.9], [0, 0, 1, 0]
    calibrator = calibrant.record_fit(get_calibrator("ts").fit(p, y), p, y).set_rule(PAIR)
    calibrant.save(calibrator, tmp_path / "cal.json")
    assert calibrant.load(tmp_path / "cal.json").audit_ == calibrator.audit_
