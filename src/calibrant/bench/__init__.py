"""Benchmarks of calibration methods: prediction sets, runs that can be stopped and continued, and their study."""

from calibrant.lazy import attach

_HOMES = {
    "Draw": ".runs.drawn_rows",
    "DrawnSource": ".runs.drawn_rows",
    "Experiment": "calibrant.files.prediction_sets.experiments",
    "MemorySource": "calibrant.files.prediction_sets.experiments",
    "Options": ".runs.one_fit",
    "PredictionFileError": "calibrant.files.prediction_sets.experiments",
    "PredictionSource": "calibrant.files.prediction_sets.experiments",
    "RepositorySource": "calibrant.files.prediction_sets.experiments",
    "SearchOptions": ".hyperparameters",
    "SplitPredictions": "calibrant.files.prediction_sets.experiments",
    "build_predictions": ".building.builder",
    "build_tables": ".study.study_tables",
    "describe": ".study.run_summary",
    "embedded_predictions": ".building.embedded",
    "load_embedded": ".building.embedded",
    "make_report": ".study.study_report",
    "merge_results": ".runs.store",
    "open_predictions": "calibrant.files.prediction_sets.open_set",
    "read_results": ".study.results",
    "read_tables": ".study.figures",
    "run_benchmark": ".runs.runner",
    "search_hyperparameters": ".hyperparameters",
    "select_experiments": "calibrant.files.prediction_sets.experiments",
    "write_hdf5": "calibrant.files.prediction_sets.hdf5",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
