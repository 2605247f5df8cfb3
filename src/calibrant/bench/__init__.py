"""Benchmarks of calibration methods: prediction sets, runs that can be stopped and continued, and their study."""

from calibrant.lazy import attach

_HOMES = {
    ".building.builder": "build_predictions",
    ".building.embedded": "embedded_predictions load_embedded",
    ".hyperparameters": "SearchOptions search_hyperparameters",
    ".runs.drawn_rows": "Draw DrawnSource",
    ".runs.one_fit": "Options",
    ".runs.runner": "run_benchmark",
    ".runs.store": "merge_results",
    ".study.figures": "read_tables",
    ".study.results": "read_results",
    ".study.run_summary": "describe",
    ".study.study_report": "make_report",
    ".study.study_tables": "build_tables",
    "calibrant.files.prediction_sets.experiments": (
        "Experiment MemorySource PredictionFileError PredictionSource RepositorySource SplitPredictions "
        "select_experiments"
    ),
    "calibrant.files.prediction_sets.hdf5": "write_hdf5",
    "calibrant.files.prediction_sets.open_set": "open_predictions",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES.items())
