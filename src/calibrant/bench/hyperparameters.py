"""Search for hyperparameters of SVS and SMS over many datasets, as in the paper's appendix.

Datasets are ranked by the test Brier improvement of temperature scaling; odd ranks are searched on, even ranks are the
control group, so that easy and hard datasets are spread evenly. Optuna maximises the mean Brier improvement over the
experiments of the first group, and the best configuration is compared with the defaults on the second one. Every trial
is stored in SQLite when it ends; a search continues where it stopped, and ends where an uninterrupted one would have.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from calibrant.bench.runs.method_spec import MethodSpec, make_spec
from calibrant.bench.runs.one_fit import Options
from calibrant.bench.runs.pool import ProcessPool
from calibrant.bench.runs.runner import run_fits
from calibrant.bench.runs.store import ResultFolder
from calibrant.bench.search_report import SearchResult, compare_on_control, write_search
from calibrant.files.prediction_sets.experiments import Experiment, PredictionSource, with_digest
from calibrant.files.prediction_sets.open_set import open_predictions
from calibrant.optional import require
from calibrant.progress import ProgressBar

if TYPE_CHECKING:
    from optuna import Study

# The space that the paper's appendix searches.
RHO = (-1.0, -0.5, 0.0, 0.5, 1.0)
TAU = (0.5, 1.0, 1.5, 2.0)
LAMBDA = (0.01, 100.0)
LAMBDAS = {
    "svs": ("lambda_intercept", "lambda_diagonal"),
    "sms": ("lambda_intercept", "lambda_diagonal", "lambda_off_diagonal"),
}
PENALTIES = ("ridge", "lasso", "group_lasso", "mcp")

Scores = dict[tuple[str, str, str], float]
"""A number by the key of an experiment."""


@dataclass(frozen=True)
class SearchOptions:
    """What a search depends on besides its data.

    Parameters
    ----------
    calibrator : {"sms", "svs"}
    penalty : {"ridge", "lasso", "group_lasso", "mcp"}
    n_trials : int
        Configurations in all, those of earlier runs included; the first one is the defaults.
    max_cal_rows : int, optional
        Larger calibration sets are subsampled.
    time_limit : float, optional
        Seconds for one fit; a configuration with a fit that fails or takes longer is a failed trial.
    seed : int
        Seed of the sampler and of subsamples.
    """

    calibrator: str = "sms"
    penalty: str = "ridge"
    n_trials: int = 100
    max_cal_rows: int | None = None
    time_limit: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("calibrator", tuple(LAMBDAS)), ("penalty", PENALTIES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if self.n_trials < 1:
            raise ValueError(f"n_trials must be at least 1, got {self.n_trials}")

    @property
    def defaults(self) -> dict[str, float]:
        """The paper's defaults: everything is 1."""
        return dict.fromkeys(("rho", "tau", *LAMBDAS[self.calibrator]), 1.0)


def split_datasets(improvements: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Search and control group: odd and even ranks by improvement, the largest first."""
    ranked = sorted(improvements, key=lambda name: (-improvements[name], name))
    return ranked[0::2], ranked[1::2]


def search_hyperparameters(
    predictions: str | Path | PredictionSource,
    out: str | Path,
    options: SearchOptions | None = None,
    *,
    experiments: Sequence[Experiment] | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> SearchResult:
    """Search, compare with the defaults on the control group, and write JSON, tables and a figure.

    Parameters
    ----------
    predictions : path or PredictionSource
        Prediction set with at least two datasets.
    out : path
        Folder for `search.db` (Optuna's storage), `search.json`, `tables` and `figures`.
    options : SearchOptions, optional
    experiments : sequence of Experiment, optional
        Only these.
    n_jobs : int, optional
        Fitting processes, by default one for each core. Results do not depend on it.
    progress : bool, optional
        Whether to show a progress bar; by default when standard error is a terminal.
    """
    optuna = require("optuna", extra="bench")
    options = options or SearchOptions()
    source = open_predictions(predictions) if isinstance(predictions, str | Path) else predictions
    kind = make_spec(options.calibrator)
    listed = source.experiments() if experiments is None else experiments
    wanted = [e for e in listed if kind.supports(e.n_classes)]
    chosen = [with_digest(source, e) for e in wanted]
    folder = ResultFolder(out)
    with folder.locked(), ProcessPool(n_jobs, options.time_limit) as pool:
        search = _Search(pool, source, options)
        improvements = search.temperature_scaling(chosen, progress)
        used = [e for e in chosen if e.key in search.base]
        searched, control = split_datasets(improvements)
        if not control:
            raise ValueError(f"a search needs at least two datasets, found {len(improvements)}")
        inside = [e for e in used if e.dataset in set(searched)]
        outside = [e for e in used if e.dataset in set(control)]
        study = _open_study(optuna, folder.path, options, source.name, used)
        with _quiet(optuna):
            _run_trials(optuna, study, search, inside, progress)
            best = _best(optuna, study, options)
        with ProgressBar(2 * len(outside), "control", progress) as bar:
            default_gain, best_gain = (
                search.improvements(outside, parameters, bar) for parameters in (options.defaults, best)
            )
        result = SearchResult(
            calibrator=options.calibrator,
            penalty=options.penalty,
            seed=options.seed,
            predictions=source.name,
            defaults=options.defaults,
            best=best,
            trials=[
                {
                    "trial": trial.number,
                    "state": trial.state.name.lower(),
                    **trial.params,
                    "brier_improvement": math.nan if trial.value is None else float(trial.value),
                }
                for trial in study.get_trials(deepcopy=False)
                if trial.state.is_finished()
            ],
            ts_improvement=improvements,
            searched=searched,
            control=control,
            n_search_experiments=len(inside),
            n_control_experiments=len(outside),
            comparison=compare_on_control(default_gain, best_gain, control),
        )
        write_search(result, folder.path)
    return result


class _Search:
    """Fits of one method to many experiments, in processes that stay open for the next method."""

    def __init__(self, pool: ProcessPool, source: PredictionSource, options: SearchOptions) -> None:
        self._pool, self._source, self.options = pool, source, options
        self.base: Scores = {}

    def temperature_scaling(self, experiments: list[Experiment], progress: bool | None) -> dict[str, float]:
        """Mean Brier improvement of TS on every dataset; sets `base`, the scores without calibration."""
        with ProgressBar(2 * len(experiments), "temperature scaling", progress) as bar:
            none, ts = (self._brier(experiments, make_spec(name), bar) for name in ("none", "ts"))
        self.base = {key: score for key, score in none.items() if key in ts}
        gains: dict[str, list[float]] = {}
        for key, score in self.base.items():
            gains.setdefault(key[0], []).append(score - ts[key])
        return {name: float(np.mean(values)) for name, values in gains.items()}

    def improvements(self, experiments: list[Experiment], parameters: Mapping[str, float], bar: ProgressBar) -> Scores:
        """Brier improvement of a configuration on every experiment that it finished."""
        spec = make_spec(self.options.calibrator, {"penalty": self.options.penalty, **parameters})
        return {key: self.base[key] - score for key, score in self._brier(experiments, spec, bar).items()}

    def _brier(self, experiments: list[Experiment], spec: MethodSpec, bar: ProgressBar) -> Scores:
        """Brier scores of a method by the key of every experiment that it finished, in the order given."""
        options = Options(self.options.time_limit, self.options.max_cal_rows, self.options.seed)
        # The slowest first, so that no process still works on one of them when all others are done.
        slowest = sorted(experiments, key=lambda e: -e.n_cal * e.n_classes**2)
        scores = {}
        for experiment, _, outcome in run_fits(self._pool, self._source, [(e, [spec]) for e in slowest], options):
            bar.advance(failed=outcome["status"] != "ok")
            if outcome["status"] == "ok":
                scores[experiment.key] = outcome["brier"]
        return {e.key: scores[e.key] for e in experiments if e.key in scores}


def _open_study(optuna: ModuleType, folder: Path, options: SearchOptions, name: str, used: list[Experiment]) -> Study:
    """The stored study, after checking that it belongs to these data and options."""
    keys = "\n".join(sorted(str(e) for e in used))
    about = {
        "data": hashlib.sha256("".join(e.digest for e in used).encode()).hexdigest()[:16],
        "predictions": name,
        "experiments": hashlib.sha256(keys.encode()).hexdigest()[:16],
        "max_cal_rows": options.max_cal_rows,
        "seed": options.seed,
    }
    title = f"{options.calibrator}-{options.penalty}"
    with _quiet(optuna):
        storage = optuna.storages.get_storage(f"sqlite:///{(folder / 'search.db').resolve()}")
        others = [found for found in optuna.get_all_study_names(storage) if found != title]
        if others:
            raise ValueError(f"{folder} holds a search of {others[0]}, not of {title}: use another folder")
        study = optuna.create_study(storage=storage, study_name=title, direction="maximize", load_if_exists=True)
    stored = study.user_attrs
    differ = [f"{key} was {stored[key]}, is {value}" for key, value in about.items() if stored.get(key, value) != value]
    if differ:
        raise ValueError(f"{folder} holds a search of other data or options ({'; '.join(differ)}): use another folder")
    for key, value in about.items():
        study.set_user_attr(key, value)
    return study


def _run_trials(
    optuna: ModuleType, study: Study, search: _Search, experiments: list[Experiment], progress: bool | None
) -> None:
    states, options = optuna.trial.TrialState, search.options
    for trial in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        # A search that was stopped in the middle left these: no other process works in this folder.
        study.set_user_attr(f"stopped-{trial.number}", True)
        study.tell(trial.number, state=states.FAIL)
    # Trials that completed or whose fits failed, but none that was stopped in the middle.
    finished = [trial.number for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
    done = sum(f"stopped-{number}" not in study.user_attrs for number in finished)
    with ProgressBar((options.n_trials - done) * len(experiments), "search", progress) as bar:
        for number in range(done, options.n_trials):
            # A new sampler for every trial depends on the seed and the trials before it alone, so that a search
            # that was stopped and continued ends like an uninterrupted one.
            study.sampler = optuna.samplers.TPESampler(seed=1_000_003 * options.seed + number)
            if number == 0 and not study.get_trials(deepcopy=False, states=(states.WAITING,)):
                study.enqueue_trial(options.defaults)
            trial = study.ask()
            parameters = {
                "rho": trial.suggest_categorical("rho", RHO),
                "tau": trial.suggest_categorical("tau", TAU),
                **{name: trial.suggest_float(name, *LAMBDA, log=True) for name in LAMBDAS[options.calibrator]},
            }
            gains = search.improvements(experiments, parameters, bar)
            if len(gains) < len(experiments):
                trial.set_user_attr("failed_fits", len(experiments) - len(gains))
                study.tell(trial, state=states.FAIL)
            else:
                study.tell(trial, math.fsum(gains.values()) / len(gains))


def _best(optuna: ModuleType, study: Study, options: SearchOptions) -> dict[str, float]:
    done = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    if not done:
        raise RuntimeError(f"no configuration of {options.calibrator} finished all fits")
    # The first of equally good trials, so that the defaults win a tie.
    best = max(done, key=lambda trial: (trial.value, -trial.number))
    return {name: float(value) for name, value in best.params.items()}


@contextlib.contextmanager
def _quiet(optuna: ModuleType) -> Iterator[None]:
    """Optuna reports every trial on standard error, where the progress bar is."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
