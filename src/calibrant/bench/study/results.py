"""Tidy benchmark results, one row per experiment × method: reading, checking, and tables of losses from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from calibrant.bench.csv_files import read_csv
from calibrant.bench.schema import EXPERIMENT, KEY, LABELS, METRICS, OPTIONAL_NUMBERS, REQUIRED, REQUIRED_NUMBERS, TEXT
from calibrant.calibrators.registry import BASELINE
from calibrant.text_table import list_names


def read_results(paths: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """Read and check tidy results.

    Parameters
    ----------
    paths : path or iterable of paths
        Files (`.parquet`, `.csv`, `.csv.gz`) or folders that hold a `results.parquet` or `results.csv`.

    Returns
    -------
    pandas.DataFrame
        All rows, checked by `check_results`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "r.csv"
    >>> _ = path.write_text(
    ...     "benchmark,dataset,model,fold,method,n_cal,n_classes,status,logloss,brier\\n"
    ...     "b,d,m,0,none,10,3,ok,0.5,0.3\\n"
    ... )
    >>> read_results(path)[["dataset", "method", "logloss"]].values.tolist()
    [['d', 'none', 0.5]]
    """
    if isinstance(paths, str | Path):
        paths = [paths]
    files = [_locate(Path(path)) for path in paths]
    if not files:
        raise ValueError("no results given: name at least one file or folder")
    frames = [_read_file(file) for file in files]
    for file, frame in zip(files, frames):
        _require_columns(frame, str(file))
    return check_results(pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0])


def check_results(results: pd.DataFrame) -> pd.DataFrame:
    """A checked copy: columns complete, names as text, losses as numbers, every row once.

    A row that says `ok` but carries no loss becomes `failed`: it has nothing to compare.
    """
    _require_columns(results, "results")
    if results.empty:
        raise ValueError("results hold no rows")
    frame = results.reset_index(drop=True)
    for name in OPTIONAL_NUMBERS:
        if name not in frame:
            frame[name] = float("nan")
    if "message" not in frame:
        frame["message"] = ""
    frame["labels"] = frame["labels"].astype(object).fillna(LABELS[0]).astype(str) if "labels" in frame else LABELS[0]
    if (unknown := ~frame["labels"].isin(LABELS)).any():
        raise ValueError(f"column 'labels' holds {frame['labels'].iloc[_first(unknown)]!r}, not {' or '.join(LABELS)}")
    for name in [*KEY, "status"]:
        missing = frame[name].isna()
        if missing.any():
            raise ValueError(f"column {name!r} is empty in row {_first(missing)}")
        if name != "fold":
            frame[name] = frame[name].astype(str)
    frame["message"] = frame["message"].astype(object).fillna("").astype(str)
    # A fold is a name: 0 in one file and r0f1 in another must not keep results from being sorted.
    frame["fold"] = [str(int(fold)) if isinstance(fold, float) else str(fold) for fold in frame["fold"]]
    for name in [*REQUIRED_NUMBERS, *OPTIONAL_NUMBERS]:
        numbers = pd.to_numeric(frame[name], errors="coerce").astype(float)
        unreadable = numbers.isna() & frame[name].notna() & (frame[name].astype(str).str.strip() != "")
        if unreadable.any():
            row = _first(unreadable)
            raise ValueError(f"column {name!r} is not a number in row {row}: {frame[name].iloc[row]!r}")
        frame[name] = numbers
    for metric in METRICS:
        negative = frame[metric] < 0
        if negative.any():
            raise ValueError(f"{metric} is negative in row {_first(negative)}: give losses, not changes of loss")
    twice = frame.duplicated(KEY)
    if twice.any():
        row = frame.iloc[_first(twice)]
        where = "/".join(str(row[name]) for name in KEY)
        raise ValueError(f"{int(twice.sum())} rows appear twice, first {where}: merge result folders, do not append")
    empty = (frame["status"] == "ok") & frame[list(METRICS)].isna().any(axis=1)
    frame.loc[empty, "status"] = "failed"
    frame.loc[empty & (frame["message"] == ""), "message"] = "a loss is not a number"
    if not ((frame["method"] == BASELINE) & (frame["status"] == "ok")).any():
        raise ValueError(
            f"no finished row of the method {BASELINE!r}: changes of loss need the uncalibrated predictions"
        )
    return frame


def with_baseline(results: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Keep the experiments whose `none` row finished; say which were left out."""
    experiments = pd.MultiIndex.from_frame(results[EXPERIMENT])
    keep = experiments.isin(experiments[(results["method"] == BASELINE) & (results["status"] == "ok")])
    if keep.all():
        return results, []
    lost = results.loc[~keep, EXPERIMENT].drop_duplicates()
    example = "/".join(str(part) for part in lost.iloc[0])
    note = f"{len(lost)} experiments have no finished {BASELINE!r} row and are left out, first {example}"
    return results[keep], [note]


def select(
    results: pd.DataFrame, *, methods: Sequence[str] | None = None, benchmarks: Sequence[str] | None = None
) -> pd.DataFrame:
    """Restrict results to some methods (`none` stays) and benchmarks; unknown names are an error."""
    for column, wanted in (("method", methods), ("benchmark", benchmarks)):
        if wanted is None:
            continue
        known = set(results[column])
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise ValueError(f"no {column} {list_names(unknown)} in the results; there are {list_names(sorted(known))}")
        keep = {*wanted, BASELINE} if column == "method" else set(wanted)
        results = results[results[column].isin(keep)]
    return results


def loss_table(results: pd.DataFrame, metric: str, methods: Sequence[str] | None = None) -> pd.DataFrame:
    """Losses with one row per experiment and one column per method; nan where a method did not finish.

    Losses are rounded to ten digits: where two methods are the same model, as matrix and vector scaling of two
    classes, their losses differ by what solvers leave, and that must be a tie.
    """
    finished = results.assign(loss=results[metric].where(results["status"] == "ok"))
    table = finished.pivot(index=EXPERIMENT, columns="method", values="loss")
    return ten_digits(table if methods is None else table.reindex(columns=pd.Index(methods, name="method")))


def change_table(losses: pd.DataFrame) -> pd.DataFrame:
    """Change of loss against `none`; two infinite losses differ by 0."""
    base = losses[BASELINE]
    change = losses.sub(base, axis=0)
    return change.mask(losses.eq(base, axis=0), 0.0)


def relative_table(losses: pd.DataFrame) -> pd.DataFrame:
    """Change of loss as a share of the loss of `none`.

    A loss that rises from 0 rises infinitely, and one that falls from infinity to a number falls by 100 %.
    """
    base = losses[BASELINE]
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = losses.div(base, axis=0) - 1.0
    return relative.mask(losses.eq(base, axis=0), 0.0)


def split_results(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Parts whose methods are comparable, with their titles: benchmarks, and binary apart from multiclass."""
    found = []
    for name in dict.fromkeys(frame["benchmark"]):
        rows = frame[frame["benchmark"] == name]
        binary = rows["n_classes"] == 2
        if binary.any() and not binary.all():
            found += [(f"{name}, binary", rows[binary]), (f"{name}, multiclass", rows[~binary])]
        else:
            found.append((name, rows))
    return found


def observed(results: pd.DataFrame) -> pd.DataFrame:
    """Results with observed labels, if there are any: harm with drawn labels is not averaged with gains."""
    real = results["labels"] == LABELS[0]
    return results[real] if real.any() else results


def ten_digits(table: pd.DataFrame) -> pd.DataFrame:
    """Round to ten significant digits."""
    values = table.to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.abs(values))) - 9)
        rounded = np.round(values / unit) * unit
    return pd.DataFrame(np.where(np.isfinite(rounded), rounded, values), table.index, table.columns)


def _locate(path: Path) -> Path:
    if path.is_dir():
        for name in ("results.parquet", "results.csv", "results.csv.gz"):
            if (path / name).is_file():
                return path / name
        raise FileNotFoundError(f"{path} holds no results.parquet, results.csv or results.csv.gz")
    if not path.is_file():
        raise FileNotFoundError(f"there is no results file {path}")
    return path


def _read_file(path: Path) -> pd.DataFrame:
    name = path.name.lower()
    try:
        if name.endswith(".parquet"):
            return pd.read_parquet(path)
        if name.endswith((".csv", ".csv.gz")):
            text = [column for column in TEXT if column != "fold"]
            return read_csv(path, text, ["fold", *REQUIRED_NUMBERS, *OPTIONAL_NUMBERS])
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read as results: {str(error).splitlines()[0]}") from error
    raise ValueError(f"{path.name}: results are read from .parquet, .csv or .csv.gz")


def _require_columns(frame: pd.DataFrame, where: str) -> None:
    missing = [name for name in REQUIRED if name not in frame.columns]
    if missing:
        raise ValueError(f"{where} lack the columns {', '.join(missing)}")


def _first(mask: pd.Series) -> int:
    return int(mask.to_numpy().argmax())
