"""How good is a solution? Duality gaps from feasible dual points, and the residual where there is no dual.

At coefficients θ with loss gradient ``u`` the dual variables of row i are ``p_i − onehot(y_i)``. For ridge they are
feasible as they are, and primal − dual collapses to ``Σ (u + 2sθ)² / 4s``. For lasso and group lasso they are first
scaled by the factor ``c`` that makes ``c·u`` feasible; the dual value is then the mean over rows of
``H(q_i) + (q_i − onehot(y_i)) · x_i`` with ``q_i = onehot(y_i) + c (p_i − onehot(y_i))``, entropy ``H``, offset ``x``.
"""

from __future__ import annotations

import numpy as np

from calibrant.softmax.penalties import GroupLasso, Lasso, Penalty, Ridge
from calibrant.softmax.problem import Point
from calibrant.typing import FloatArray


def duality_gap(point: Point, penalty: Penalty, theta: FloatArray, u: FloatArray, objective: float) -> float:
    """An upper bound of the suboptimality of `theta`, or NaN where no feasible dual point is known.

    Parameters
    ----------
    point, u : the problem at `theta`, and the gradient of the loss there.
    objective : loss plus penalty at `theta`.
    """
    if not penalty.certifies:
        return float("nan")
    if isinstance(penalty, Ridge):
        return penalty.conjugate(u + penalty.gradient(theta))
    if isinstance(penalty, (Lasso, GroupLasso)):
        return max(0.0, objective - point.dual_value(penalty.dual_scale(u)))
    return float("nan")


def prox_residual(penalty: Penalty, theta: FloatArray, u: FloatArray) -> float:
    """Largest entry of ``θ − prox(θ − u)``: zero at a stationary point, convex or not."""
    return float(np.max(np.abs(theta - penalty.prox(theta - u, 1.0)), initial=0.0))
