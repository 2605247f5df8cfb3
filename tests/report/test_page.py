"""The page: complete, self-contained, safe with hostile names, small, readable in a real browser at two widths."""

from __future__ import annotations

import dataclasses
import html
import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from calibrant.plots import report as figures
from calibrant.report.analysis import Source, analyse
from calibrant.report.data import Report
from calibrant.report.page import render
from tests.needs import needs

from .conftest import sharpened

HOSTILE = "<script>document.title='broken'</script>"
QUOTED = "\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def hostile() -> Report:
    data = sharpened(600, 3, 2.0)
    group = np.array([HOSTILE, QUOTED, "ok"] * 200, dtype=object)
    source = Source(HOSTILE, (f"{QUOTED}.csv", "--label", HOSTILE), f"calibrant report {HOSTILE}", rows_skipped=3)
    return analyse(data, [HOSTILE, QUOTED, "ok"], source, group=group, group_name=QUOTED, methods=["ts", "quadratic"])


@pytest.fixture(scope="module")
def binary() -> Report:
    return analyse(sharpened(600, 2, 2.0), ["no", "yes"], Source("binary.csv"), methods=["ts", "isotonic"])


class Tags(html.parser.HTMLParser):
    """All elements and attributes of a page; checks that elements are closed in order."""

    VOID = frozenset({"meta", "br", "img", "hr", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


def test_everything_from_the_data_is_escaped(hostile: Report) -> None:
    page = render(hostile)
    tags = parsed(page)
    names = {name for name, _ in tags.elements}
    assert not names & {"script", "img", "iframe", "object", "link"}
    assert not [key for _, attributes in tags.elements for key in attributes if key.startswith("on")]
    assert "{{ 7 * 7 }}" in page
    assert "49" not in re.findall(r"img src=x onerror=alert\(1\)&gt;([^<]*)", page)


def test_nothing_is_loaded_from_anywhere(hostile: Report, binary: Report) -> None:
    for report in (hostile, binary):
        tags = parsed(render(report))
        for _, attributes in tags.elements:
            for key in ("src", "href", "action", "data"):
                assert (attributes.get(key) or "data:").startswith("data:")
        policy = [a["content"] for name, a in tags.elements if name == "meta" and "http-equiv" in a]
        assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
        style = re.search(r"<style>(.*?)</style>", render(report), re.DOTALL)
        assert style is not None
        assert "url(" not in style.group(1)
        assert "@import" not in style.group(1)


def test_all_sections_are_there(hostile: Report, binary: Report) -> None:
    sections = [
        "verdict",
        "metrics",
        "faults",
        "reliability",
        "decomposition",
        "methods",
        "correction",
        "classes",
        "next",
    ]
    for report, expected in ((hostile, [*sections, "groups"]), (binary, sections)):
        ids = {attributes.get("id") for name, attributes in parsed(render(report)).elements if name == "section"}
        assert ids == set(expected)


def test_a_hundred_classes_stay_below_three_megabytes() -> None:
    data = sharpened(3000, 100, 1.5)
    report = analyse(data, [f"class {i}" for i in range(100)], Source("many.csv"), methods=["ts", "svs"])
    page = render(report)
    assert len(page.encode()) < 3_000_000
    assert "data:image/png;base64," in page
    assert page.count("<tr>") > 100


def test_png_is_read_back_pixel_by_pixel(tmp_path: Path) -> None:
    image = needs("matplotlib.image")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    (tmp_path / "x.png").write_bytes(figures._png(pixels))
    np.testing.assert_array_equal(np.rint(255 * image.imread(tmp_path / "x.png"))[..., :3], pixels)


def test_a_method_far_off_does_not_squeeze_the_figure(hostile: Report) -> None:
    good = next(row for row in hostile.methods if row.name == "ts").gain_log_loss
    assert good is not None
    awful = dataclasses.replace(good, value=-90.0, low=-99.0, high=-80.0)
    assert "← −90.0000" in figures.method_gains({"ts": good, "awful": awful}, "ts")


NO_CHROMIUM = "tests marked `browser` need Chromium on the path"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PROBE = """<script>
const wide = [...document.querySelectorAll("main *")].filter(e => !e.closest("svg, .scroll") &&
  e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName);
const texts = [...document.querySelectorAll("svg text")].map(t => t.getBoundingClientRect());
const small = texts.filter(t => t.height > 0 && t.height < 7).length;
const out = [...document.querySelectorAll("svg text")].filter(t => {
  const a = t.getBoundingClientRect(), b = t.closest("svg").getBoundingClientRect();
  return a.left < b.left - 1 || a.right > b.right + 1 || a.bottom > b.bottom + 1; }).map(t => t.textContent);
document.body.dataset.probe = JSON.stringify({width: innerWidth, page: document.documentElement.scrollWidth,
  wide, small, out, title: document.title});
</script>"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [500, 1200])
@pytest.mark.parametrize("kind", ["hostile", "binary"])
def test_readable_in_a_browser(kind: str, width: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    report: Report = request.getfixturevalue(kind)
    # The probe is a script, which the page's own policy would rightly refuse.
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", render(report))
    file = tmp_path / "report.html"
    file.write_text(page.replace("</body>", PROBE + "</body>"))
    # Headless Chromium has no window narrower than 500 pixels: a phone is a frame in a page.
    frame_width = 360 if width == 500 else width
    assert CHROMIUM is not None, NO_CHROMIUM
    if width == 500:
        outer = tmp_path / "phone.html"
        outer.write_text(f'<iframe src="report.html" width="{frame_width}" height="800" style="border:0"></iframe>')
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--dump-dom"]
    if width == 500:
        # The frame's document is read by a page that copies its probe.
        outer.write_text(
            outer.read_text()
            + "<script>onload = () => { document.body.dataset.probe ="
            + " document.querySelector('iframe').contentDocument.body.dataset.probe }</script>"
        )
        command += ["--allow-file-access-from-files", outer.as_uri()]
    else:
        command.append(file.as_uri())
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Uncaught" not in done.stderr
    probe = re.search(r'data-probe="([^"]*)"', done.stdout)
    assert probe is not None
    found = json.loads(html.unescape(probe.group(1)))
    assert found["width"] == frame_width
    assert found["page"] <= frame_width
    assert found["wide"] == []
    assert found["small"] == 0
    assert found["out"] == []
    assert found["title"] != "broken"


@pytest.mark.browser
def test_scripts_in_names_do_nothing_in_a_browser(hostile: Report, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(hostile))
    assert CHROMIUM is not None, NO_CHROMIUM
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert title.group(1).startswith("Calibration of &lt;script&gt;")
