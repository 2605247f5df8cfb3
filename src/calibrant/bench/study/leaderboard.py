"""The leaderboard: one HTML file with a sortable, filterable table, the figures and how it was made.

The page carries the losses of every experiment and computes changes, ranks and win rates in the browser, by the
definitions of the tables, so that they follow the filters. It loads nothing from anywhere: a content security
policy forbids it, and every text that comes from data is escaped.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from calibrant.bench.schema import DATASET, LABELS, METRICS
from calibrant.bench.study.figures import FIGURES
from calibrant.bench.study.results import loss_table
from calibrant.optional import require

#: Files have 150 dots an inch, figures on the page 100.
PAGE_SCALE = 2 / 3


def leaderboard_page(
    results: pd.DataFrame,
    methods: pd.DataFrame,
    *,
    tests: Sequence[str],
    notes: Sequence[str],
    parts: Mapping[str, Path],
    command: str,
    versions: Mapping[str, str],
    runs: Sequence[Mapping[str, object]] = (),
    title: str = "Calibration leaderboard",
) -> str:
    """HTML text of the page from results of experiments whose `none` finished and the table `methods`.

    `parts` maps headings to folders with the PNG files of figures; `command` and `versions` made the page, `runs` the
    results.
    """
    jinja2 = require("jinja2", extra="bench")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    data = page_data(results, methods)
    template = environment.from_string(_template("leaderboard.html"))
    # The two files and the data are ours; the data has no "<" left, so that no name can close the script element.
    own = {"style": _template("leaderboard.css"), "script": _template("leaderboard.js"), "data": script_json(data)}
    return str(
        template.render(
            title=title,
            n_experiments=len(data["dataset"]),
            n_datasets=len(set(data["dataset"])),
            n_methods=sum(method != "none" for method in methods["method"]),
            benchmarks=data["benchmarks"],
            models=data["models"],
            datasets=data["datasets"],
            classes=(min(data["classes"]), max(data["classes"])),
            methods=data["methods"],
            draws=sorted({size for size in data["draw"] if size}),
            notes=notes,
            tests=tests,
            parts=[{"title": title, "figures": _figures(directory)} for title, directory in parts.items()],
            command=command,
            versions=versions,
            runs=runs,
            **{name: jinja2.utils.markupsafe.Markup(text) for name, text in own.items()},
        )
    )


def _template(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def page_data(results: pd.DataFrame, methods: pd.DataFrame) -> dict[str, Any]:
    """What the page's script works on: names, and for every experiment its traits and every method's numbers."""
    order = methods["method"].tolist()
    losses = {metric: loss_table(results, metric, order) for metric in METRICS}
    index = losses["logloss"].index
    seconds = results.assign(seconds=1000.0 * results["fit_seconds"] / results["n_cal"])
    seconds = loss_table(seconds, "seconds", order).reindex(index)
    traits = results.groupby(index.names)[["n_classes", "draw", "labels"]].first().reindex(index)
    benchmarks = sorted(set(index.get_level_values("benchmark")))
    models = sorted(set(index.get_level_values("model")))
    datasets = {key: place for place, key in enumerate(sorted(set(index.droplevel(["model", "fold"]))))}
    return {
        "methods": methods[["method", "family", "colour", "ranked"]].to_dict("records"),
        "benchmarks": benchmarks,
        "models": models,
        "datasets": _dataset_names(list(datasets)),
        "benchmark": [benchmarks.index(name) for name in index.get_level_values("benchmark")],
        "model": [models.index(name) for name in index.get_level_values("model")],
        "dataset": [datasets[key] for key in index.droplevel([n for n in index.names if n not in DATASET])],
        "classes": [int(k) if math.isfinite(k) else 0 for k in traits["n_classes"]],
        "draw": [int(size) if size > 0 else 0 for size in traits["draw"]],
        "harm": (traits["labels"] == LABELS[1]).tolist(),
        **{metric: [_numbers(table[name]) for name in order] for metric, table in losses.items()},
        # Seconds are shown with four decimals and never ranked.
        "seconds": [_numbers(seconds[name], digits=5) for name in order],
    }


def _dataset_names(keys: Sequence[tuple[object, ...]]) -> list[str]:
    """Names of the datasets; where two share a name, the benchmark is added."""
    names = [str(key[DATASET.index("dataset")]) for key in keys]
    return [
        name if names.count(name) == 1 else ", ".join(dict.fromkeys([name, *map(str, key)]))
        for name, key in zip(names, keys)
    ]


def _numbers(column: pd.Series, digits: int = 10) -> list[float | str | None]:
    """Numbers rounded to so many digits, infinity as text and nan as null, which JSON can hold."""
    return [
        None if math.isnan(v) else "inf" if math.isinf(v) else float(f"{v:.{digits}g}") for v in column.astype(float)
    ]


def script_json(data: object) -> str:
    """JSON without any character that could end the script element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _figures(directory: Path) -> list[dict[str, object]]:
    """Figures as small WebP files at the resolution of the page."""
    image = require("PIL.Image", extra="plots")
    shown = []
    for name, spec in FIGURES.items():
        path = directory / f"{name}.png"
        if path.is_file():
            small = io.BytesIO()
            with image.open(path) as opened:
                width, height = opened.size
                size = max(round(PAGE_SCALE * width), 1), max(round(PAGE_SCALE * height), 1)
                drawn = opened.convert("RGB").resize(size, image.Resampling.LANCZOS)
            drawn.save(small, "WEBP", quality=50, method=6)
            source = "data:image/webp;base64," + base64.b64encode(small.getvalue()).decode()
            # Drawn at 150 dots an inch, shown at 96.
            in_page = {"width": round(width * 0.64), "height": round(height * 0.64)}
            shown.append({"caption": spec.caption, "source": source, **in_page})
    return shown
