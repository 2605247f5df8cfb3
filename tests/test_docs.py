"""The snippets of README.md and docs/ run: each section of a page is a doctest of its own."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

from calibrant.calibrators import registry
from tests.needs import needs

ROOT = Path(__file__).parents[1]
#: Packages that a section may import without which the others still run, and the marks of their tests.
OPTIONAL = ("torch", "dask")
#: Pages whose one long story resamples or documents for seconds: `make test-optional` runs them.
SLOW = ("credit-risk.md", "document.md", "clinical-prediction.md", "forecasting.md")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def sections():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for section in re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            if ">>> " in section:
                title = section.splitlines()[0].strip("# ")
                marks = [getattr(pytest.mark, package) for package in OPTIONAL if f"import {package}" in section]
                marks += [pytest.mark.slow] * (page.name in SLOW)
                yield pytest.param(page, section, id=f"{page.name}: {title}", marks=marks)


@pytest.fixture
def methods_as_they_were():
    """Snippets may register methods, of which later tests should not know."""
    before = dict(registry._REGISTRY)
    yield
    registry._REGISTRY.clear()
    registry._REGISTRY.update(before)


@pytest.mark.usefixtures("methods_as_they_were")
@pytest.mark.parametrize(("page", "section"), list(sections()))
def test_snippets(page, section):
    for package in OPTIONAL:
        if f"import {package}" in section:
            needs(package)
    # The fence that ends a snippet is no output.
    text = re.sub(r"^```.*$", "", section, flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert test.examples
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    assert runner.run(test).failed == 0


def test_the_page_of_use_has_its_three_snippets():
    text = (ROOT / "docs" / "use.md").read_text(encoding="utf-8")
    for title in ("## Held-out predictions", "## Any classifier", "## Logits of a network"):
        assert title in text


@pytest.mark.parametrize(
    "line",
    [
        line
        for page in ("choosing.md", "faq.md")
        for line in re.split(r"\n\n|\n(?=[|#-])", (ROOT / "docs" / page).read_text(encoding="utf-8"))
        if re.search(r"\(\w[\w-]*\.md", line) and re.search(r"\d\.\d{3}", line)
    ],
)
def test_a_quoted_figure_stands_on_the_page_it_is_taken_from(line):
    pages = set(re.findall(r"\((\w[\w-]*\.md)", line))
    text = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages)
    figures = re.findall(r"(?<![\w.])[-+]?\d+\.\d{2,}|\d+e-\d+", line)
    assert figures
    assert not [figure for figure in figures if figure.lstrip("+-") not in text]


@pytest.mark.parametrize("name", ["", ".calibrators", ".metrics", ".plots", ".deployment", ".steps", ".runtime"])
def test_every_public_name_has_an_example(name):
    module = importlib.import_module(f"calibrant{name}")
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__]
    names = getattr(module, "__all__", own)
    found = {n: getattr(module, n) for n in names if not n.startswith("_") and n != "Calibrator"}  # an abstract base
    documented = {n: v for n, v in found.items() if inspect.isclass(v) or inspect.isroutine(v)}
    assert [n for n, v in documented.items() if ">>> " not in (inspect.getdoc(v) or "")] == []


def test_the_results_page_says_when_it_was_made():
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    made = page.split("<!-- benchmarks/results.py writes from here -->")[1].split("<!-- to here -->")[0]
    assert re.search(r"\d\d \w+ 20\d\d, version \d+\.\d+", made)
    assert (ROOT / "docs" / "leaderboard.html").stat().st_size < 1_500_000


def test_every_page_stands_in_the_navigation_of_one_task():
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
    blocks = {name: re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL) for name, text in pages.items()}
    listed = [
        entry.strip("> ").rpartition("<")[2]
        for found in blocks.values()
        for block in found
        for entry in block.splitlines()
        if entry and not entry.startswith(":")
    ]
    missing = set(pages) - {"index", *listed}
    assert not missing, f"put these into the table and the toctree of classifier.md, check.md, ...: {missing}"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    "word",
    ["CalibratedClassifierCV", "SVC(probability=True)", "scale_pos_weight", "LightGBM booster", "TabPFN", "AutoGluon",
     "nnU-Net", "threshold", "confidence interval", "MAPIE"],
)  # fmt: skip
def test_what_people_search_for_is_a_question_with_an_answer(word):
    questions = re.split(r"^## ", (ROOT / "docs" / "faq.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = [question for question in questions if word.lower() in question.splitlines()[0].lower()]
    assert found, f"no question names {word}"
    assert any(re.search(r"\]\(|`\w+\(", question) for question in found)


@pytest.mark.parametrize("page", ["docs/house.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_are_there(page):
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", (ROOT / page).read_text(encoding="utf-8")))
    assert named
    places = (ROOT, ROOT / "src" / "calibrant")
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []
