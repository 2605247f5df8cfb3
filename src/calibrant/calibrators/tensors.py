"""Fits and predictions of torch tensors, which stay on their device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from calibrant.inputs.labels import check_labels, encode, name_columns
from calibrant.inputs.tensors import tensor_log_probabilities, widest_dtype
from calibrant.inputs.weights import check_sample_weight
from calibrant.softmax.rows.tensors import TorchRows
from calibrant.steps import Steps
from calibrant.steps.torch_modules import predict_from_logs
from calibrant.threads import for_products, limited

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator, RowsCalibrator


@limited
def fit_tensor(calibrator: RowsCalibrator, X: Tensor, y: Any, sample_weight: Any) -> None:
    """Fit to predictions in a tensor: `Calibrator.fit`, with sums over rows computed on the tensor's device."""
    x = tensor_log_probabilities(X.detach(), logits=calibrator.input == "logits", renormalize=calibrator.renormalize)
    labels, categories = check_labels(y, len(x))
    weight = check_sample_weight(sample_weight, len(x))
    calibrator.n_features_in_ = 1 if X.ndim == 1 else int(X.shape[1])
    calibrator._set_names(None)
    classes, order = name_columns(labels, x.shape[1], classes=calibrator.classes, categories=categories)
    calibrator.classes_, calibrator._column_order = classes, order
    x = x if order is None else x[:, order]
    codes = encode(labels, classes)
    if weight is not None and not weight.all():
        present = np.flatnonzero(weight)
        x, codes, weight = x[torch.as_tensor(present, device=x.device)], codes[present], weight[present]
    calibrator._warn_of_missing_information(x, codes)
    calibrator.class_counts_ = np.bincount(codes, weight, minlength=len(classes)).astype(np.float64)
    counts = None if weight is None else torch.as_tensor(weight).to(x.device, widest_dtype(x.device))
    calibrator._fit_rows(TorchRows(x, torch.as_tensor(codes, device=x.device), counts))


@limited
def predict_tensor(calibrator: Calibrator, steps: Steps, X: Tensor) -> Any:
    """Calibrated probabilities of a tensor, on its device; single precision for narrower than double."""
    columns = calibrator._check_columns(X)
    x = tensor_log_probabilities(X, logits=calibrator.input == "logits", renormalize=calibrator.renormalize)
    if columns > 1 and calibrator._column_order is not None:
        x = x[:, calibrator._column_order]
    k = len(calibrator.classes_)
    with for_products(len(x), k, k):
        return predict_from_logs(steps, x)
