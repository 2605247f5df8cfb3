"""Methods as they are written on the command line."""

from __future__ import annotations

import pytest

from calibrant.bench.runs.method_spec import native_methods, parse_method, parse_methods, with_baseline
from calibrant.calibrators.registry import list_calibrators


def test_list_with_parameters_and_labels() -> None:
    specs = parse_methods("a=tests.bench.odd_methods:Shrink(weight=0.5, count=None),tests.bench.odd_methods:Failing")
    assert [s.label for s in specs] == ["none", "a", "tests.bench.odd_methods:Failing"]
    assert specs[1].params == {"weight": 0.5, "count": None}
    assert specs[1].make().weight == 0.5


def test_all_means_every_method_without_extras() -> None:
    assert {s.label for s in parse_methods("all")} == {i.name for i in list_calibrators() if i.extra is None}
    assert all(s.version.startswith("calibrant ") for s in native_methods())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonee", "did you mean 'none'"),
        ("no_such_package:Class", "cannot import 'no_such_package'"),
        ("tests.bench.odd_methods:Missing", "has no class 'Missing'"),
        ("none(1)", "name=value"),
        ("none(a=__import__('os'))", "cannot read the parameters"),
        ("none(", "cannot read the method"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_method(text)


def test_one_label_one_method() -> None:
    a, b = parse_method("x=none"), parse_method("x=none(renormalize=True)")
    assert [s.label for s in with_baseline([a, a])] == ["none", "x"]
    with pytest.raises(ValueError, match="two different methods are called 'x'"):
        with_baseline([a, b])
