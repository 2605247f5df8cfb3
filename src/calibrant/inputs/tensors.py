"""The input contract for torch tensors: predictions are checked and become log-probabilities on their device.

The rules are those of `calibrant.inputs.rows`; a row that breaks one is taken to the processor, where the contract for
arrays says what is wrong with it. Only what computes with tensors imports this module.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from calibrant.inputs.predictions import as_matrix, rounding_of, to_log_probabilities
from calibrant.inputs.rows import largest_allowed
from calibrant.simplex import LOG_FLOOR


def widest_dtype(device: torch.device) -> torch.dtype:
    """The precision of sums: double, except on devices that have none."""
    return torch.float32 if device.type == "mps" else torch.float64


def computing_dtype(x: Tensor) -> torch.dtype:
    """The precision to compute in: that of the predictions, but at least single; double for whole numbers."""
    narrow = x.is_floating_point() and x.dtype != torch.float64
    return torch.float32 if narrow else widest_dtype(x.device)


def tensor_log_probabilities(
    X: Tensor, *, logits: bool = False, renormalize: bool = False, scaling: Any = None
) -> Tensor:
    """Validated log-probabilities (rows × classes) of predictions, on their device; a single column is the second's.

    The step `scaling` makes logits of scores.
    """
    if str(X.layout) != "torch.strided" or X.is_complex() or X.ndim not in (1, 2) or 0 in X.shape:
        as_matrix(X)  # says why
        raise ValueError(f"X is a tensor of shape {tuple(X.shape)} and type {X.dtype}, not of real numbers.")
    values = X.reshape(-1, 1) if X.ndim == 1 else X
    x = values.to(computing_dtype(X))
    single, rounding = x.shape[1] == 1, rounding_of(X)
    sums = x.sum(1, keepdim=True)
    with torch.no_grad():
        wrong = ~_usable(x, sums, logits=logits, renormalize=renormalize, rounding=rounding)
        if bool(wrong.any()):
            row = int(wrong.to(torch.int8).argmax())
            found = values[row : row + 1].detach().to("cpu", torch.float64).numpy()
            to_log_probabilities(found, logits=logits, renormalize=renormalize, first_row=row, rounding=rounding)
    if logits:
        x = torch.cat([torch.zeros_like(x), x], 1) if single else x
        if scaling is not None:
            x = x * torch.as_tensor(scaling.factor).to(x) + torch.as_tensor(scaling.shift).to(x)
        return torch.log_softmax(x, 1).clamp(min=LOG_FLOOR)
    if single:
        second = x.clamp(max=1.0)
        x = torch.cat([1.0 - second, second], 1)
    elif renormalize:
        x = x / x.detach().amax(1, keepdim=True)  # numbers as large as floats can be have no finite sum
        x = x / x.sum(1, keepdim=True)
    else:
        x = x / sums
    return torch.log(x).clamp_(min=LOG_FLOOR)


def _usable(x: Tensor, sums: Tensor, *, logits: bool, renormalize: bool, rounding: float) -> Tensor:
    """Which rows can be used: the rules of `calibrant.inputs.rows.examine`."""
    single = x.shape[1] == 1
    top = x.amax(1)  # NaN if there is one
    if logits:
        return torch.isfinite(top.clamp(min=0.0) if single else top)
    inside = (x.amin(1) >= 0.0) & (top <= largest_allowed(single, renormalize, rounding))
    if single:
        return inside
    return inside & ((top > 0.0) if renormalize else ((sums[:, 0] - 1.0).abs() <= rounding))
