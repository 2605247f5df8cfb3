"""Fits and predictions of torch tensors, which stay on their device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calibrant.inputs.observations import check_observations, encoded, observations
from calibrant.inputs.predictions import LOOKED_AT, check_logits, to_numpy
from calibrant.inputs.tensors import tensor_log_probabilities, widest_dtype
from calibrant.sample import Sample
from calibrant.softmax.rows.torch import TorchRows
from calibrant.steps import Steps
from calibrant.steps.torch_modules import predict_from_logs
from calibrant.threads import for_products, limited

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator
    from calibrant.calibrators.rows_calibrator import RowsCalibrator


@limited
def fit_tensor(calibrator: RowsCalibrator, X: Tensor, y: object, sample_weight: object) -> None:
    """Fit to predictions in a tensor: `Calibrator.fit`, with sums over rows computed on the tensor's device."""
    x = tensor_log_probabilities(X.detach(), logits=calibrator.input == "logits", renormalize=calibrator.renormalize)
    if calibrator.input == "logits":
        check_logits(to_numpy(X[:LOOKED_AT]))
    rows, labels, counts, categories = observations(y, tuple(X.shape), sample_weight, calibrator.classes)
    check_observations(len(labels), counts)
    calibrator._take_names(labels, x.shape[1], 1 if X.ndim == 1 else int(X.shape[1]), categories=categories)
    x = x if rows is None else x[torch.as_tensor(rows, device=x.device)]
    x = x if calibrator._column_order is None else x[:, calibrator._column_order]
    on_device: Any = x  # a tensor; a sample only needs its shape
    sample = calibrator._take_sample(encoded(Sample(on_device, labels, counts, logs=True), calibrator.classes_, None))
    weight = None if counts is None else torch.as_tensor(counts).to(x.device, widest_dtype(x.device))
    calibrator._fit_rows(TorchRows(x, torch.as_tensor(sample.y, device=x.device), weight))


@limited
def predict_tensor(calibrator: Calibrator, steps: Steps, X: Tensor) -> Any:
    """Calibrated probabilities of a tensor, on its device; single precision for narrower than double."""
    columns = calibrator._check_columns(X)
    x = tensor_log_probabilities(
        X, logits=calibrator.takes_logits, renormalize=calibrator.renormalize, scaling=calibrator._score_step
    )
    if columns > 1 and calibrator._column_order is not None:
        x = x[:, calibrator._column_order]
    k = len(calibrator.classes_)
    with for_products(len(x), k, k):
        return predict_from_logs(steps, x)
