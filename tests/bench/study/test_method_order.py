"""Families, order and colours of methods."""

from __future__ import annotations

import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
needs("pandas")

from calibrant.bench.study.method_order import OTHER, family_of, method_table  # noqa: E402
from calibrant.calibrators.registry import list_calibrators  # noqa: E402


def luminance(colour):
    """Relative luminance, as the web's contrast rules define it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_baseline_first_families_together_whatever_the_order_given():
    names = ["mine", "sms", "ts", "none", "isotonic", "sms(rho=0.5)", "vs", "a.b:C"]
    table = method_table(names)
    assert table["method"].tolist()[0] == "none"
    assert table["method"].tolist() == method_table(names[::-1])["method"].tolist()
    families = table["family"].tolist()
    assert all(
        families.index(f) + families.count(f) - 1 == len(families) - 1 - families[::-1].index(f) for f in families
    )
    assert families[-1] == OTHER


def test_families_are_the_registrys_parameters_and_aliases_included():
    assert family_of("sms(rho=0.5)") == family_of("structured-matrix-scaling") == "MS"
    assert family_of("a.b:C") == OTHER
    # Examples in the documentation register methods of their own.
    names = [info.name for info in list_calibrators() if info.family != OTHER]
    table = method_table(names[::-1])
    assert table["method"].tolist() == names
    assert OTHER not in set(table["family"])


def test_colours_are_distinct_and_seen_on_white():
    names = [info.name for info in list_calibrators()] + [f"own-{i}" for i in range(5)]
    table = method_table(names, families={f"own-{i}": f"family {i}" for i in range(5)})
    assert table["colour"].is_unique
    assert max(luminance(colour) for colour in table["colour"]) < 0.75


def test_a_colour_does_not_depend_on_the_company():
    names = [info.name for info in list_calibrators()] + ["mine", "package.module:Class", "sms(rho=0.5)"]
    together = method_table(names).set_index("method")["colour"]
    assert together.is_unique
    for name in names:
        alone = method_table(sorted({"ts", name})).set_index("method")["colour"]
        assert alone[name] == together[name]


def test_unranked_methods_are_marked():
    table = method_table(["none", "ts", "sms"], unranked=["ts"]).set_index("method")
    assert table["ranked"].to_dict() == {"none": True, "ts": False, "sms": True}
