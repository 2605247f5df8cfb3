"""What an export answers to rows of any kind: NaN where it refuses one, each target in its way."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np

from calibrant.runtime import Map
from calibrant.writers import c_source, javascript, python_source, sql
from calibrant.writers.common import run_program, workshop
from tests.needs import needs, needs_program

_RUN = """
const { calibrate } = require("./map.cjs");
const rows = eval(require("fs").readFileSync(0, "utf8"));
const found = rows.map((row) => {
  try { return calibrate(row); } catch (error) { if (error instanceof RangeError) return null; throw error; }
});
process.stdout.write(JSON.stringify(found));
"""
_MAIN = """
#include "map.c"
int main(void) {
    double row[CLASSES], out[CLASSES];
    for (int j = 0; scanf("%lf", row + j) == 1;) {
        if (++j < CLASSES) continue;
        int refused = calibrate(row, out);
        for (j = 0; j < CLASSES; j++) printf("%.17g ", refused ? NAN : out[j]);
        j = 0;
    }
    return 0;
}
"""


def python(map_: Map, rows: Sequence[Sequence[float]]) -> Any:
    scope: dict[str, Any] = {}
    exec(python_source.write(map_, []), scope)
    return [_tried(scope["calibrate"], row, map_.k) for row in rows]


def runtime(map_: Map, rows: Sequence[Sequence[float]]) -> Any:
    return [_tried(lambda row: map_.predict_proba([row])[0].tolist(), row, map_.k) for row in rows]


def _tried(calibrate: Any, row: Sequence[float], k: int) -> list[float]:
    try:
        return list(calibrate(row))
    except ValueError:
        return [np.nan] * k


def js(map_: Map, rows: Sequence[Sequence[float]]) -> Any:
    needs_program("node")
    spelled = str([list(map(float, row)) for row in rows]).replace("inf", "Infinity").replace("nan", "NaN")
    with workshop({"map.cjs": javascript.write(map_, []), "run.cjs": _RUN}) as folder:
        found = json.loads(run_program(["node", "run.cjs"], folder, spelled))
    return [[np.nan] * map_.k if row is None else row for row in found]


def c(map_: Map, rows: Sequence[Sequence[float]]) -> Any:
    needs_program("cc")
    with workshop({"map.c": c_source.write(map_, []), "main.c": _MAIN}) as folder:
        run_program(["cc", "-std=c99", "-O1", "-ffp-contract=off", "main.c", "-o", "map", "-lm"], folder)
        text = "\n".join(" ".join(map(str, map(float, row))) for row in _both(map_, rows))
        return np.array(run_program([str(folder / "map")], folder, text).split(), dtype=float).reshape(-1, map_.k)


def query(map_: Map, rows: Sequence[Sequence[float]], dialect: str = "duckdb") -> Any:
    duckdb, names = needs("duckdb"), [f"p{j}" for j in range(len(rows[0]))]
    options = {"dialect": dialect, "columns": names}
    with closing(sqlite3.connect(":memory:") if dialect == "sqlite" else duckdb.connect()) as base:
        base.execute(f"CREATE TABLE predictions ({', '.join(f'{name} DOUBLE' for name in names)})")
        marks = ", ".join("?" for _ in names)
        base.executemany(f"INSERT INTO predictions VALUES ({marks})", [list(map(float, row)) for row in rows])
        found = base.execute(sql.write(map_, [], **options)).fetchall()
    assert len(found) == len(rows)
    found = np.array(found, dtype=object)
    found[found == None] = np.nan  # noqa: E711  each cell
    found = found.astype(float)
    return np.hstack([1.0 - found, found]) if len(names) == 1 else found


def sqlite(map_: Map, rows: Sequence[Sequence[float]]) -> Any:
    return query(map_, rows, "sqlite")


def onnx(map_: Map, rows: Sequence[Sequence[float]], dtype: str = "float64") -> Any:
    needs("onnxruntime")
    from calibrant.writers import onnx_graph

    return onnx_graph.run(onnx_graph.write(map_, dtype=dtype), map_, np.array(_both(map_, rows), dtype=float))


def torch(map_: Map, rows: Sequence[Sequence[float]], dtype: str = "float64") -> Any:
    needs("torch")
    from calibrant.writers import torch_module

    return torch_module.run(torch_module.write(map_, dtype=dtype), map_, np.array(rows, dtype=float))


def _both(map_: Map, rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """What targets that take all columns get for a single one."""
    if len(rows[0]) == map_.k:
        return [list(row) for row in rows]
    pairs = [[0.0, z] if map_.logits else [1.0 - min(z, 1.0), z] for (z,) in rows]
    return pairs if map_.columns is None else [[pair[j] for j in np.argsort(map_.columns)] for pair in pairs]


#: Each target, with the marker of what it needs.
TARGETS: dict[str, tuple[Any, str]] = {
    "runtime": (runtime, ""),
    "python": (python, ""),
    "js": (js, "program"),
    "c": (c, "program"),
    "sql": (query, "export"),
    "sqlite": (sqlite, "export"),
    "onnx": (onnx, "export"),
    "torch": (torch, "torch"),
}
