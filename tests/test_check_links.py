"""The check of the built site finds what is wrong with it."""

from __future__ import annotations

import pytest
from tools.check_links import faults


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="b.html#here">b</a> <a href="https://example.org/gone">elsewhere</a>', None),
        ('<a href="c.html">c</a>', "no such file"),
        ('<a href="b.html#there">b</a>', "no such place"),
        ('<a href="#below">below</a>', "no such place"),
        ('<img src="picture.png">', "no such file"),
        ('<script src="https://cdn.example.org/math.js"></script>', "loads https://cdn.example.org/math.js"),
        ('<link rel="canonical" href="https://example.org/a.html">', None),
        ('<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">', None),
    ],
)
def test_faults(tmp_path, body, fault):
    (tmp_path / "a.html").write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>', encoding="utf-8")
    found = list(faults(tmp_path))
    if fault is None:
        assert not found
    else:
        assert len(found) == 1
        assert fault in found[0]


def test_an_empty_site_is_a_fault(tmp_path):
    assert list(faults(tmp_path)) == [f"{tmp_path} has no pages"]
