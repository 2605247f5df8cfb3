"""Methods as they are written on the command line."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from calibrant.bench.runs.method_spec import (
    ClassShipping,
    native_methods,
    parse_method,
    parse_methods,
    with_baseline,
)
from calibrant.calibrators.registry import list_calibrators
from tests.needs import needs


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


def test_a_class_is_sent_with_the_files_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("cloudpickle")
    folder = tmp_path / "sent_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "helper.py").write_text("def half(p):\n    return p / 2\n")
    (folder / "own.py").write_text(
        "from sent_package.helper import half\n\nclass Own:\n    def predict_proba(self, p):\n        return half(p)\n"
    )
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        spec = parse_method("sent_package.own:Own")
        sent = pickle.dumps(ClassShipping()(spec))
    for name in [name for name in sys.modules if name.startswith("sent_package")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ValueError, match=r"cannot import 'sent_package\.own'"):
        spec.make()
    pickle.loads(sent)()
    assert spec.make().predict_proba(1.0) == 0.5
    del sys.modules["sent_package.own"]
    registered = parse_method("ts")
    assert ClassShipping()(registered) == registered.make
