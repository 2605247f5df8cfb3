"""Limited-memory BFGS (scipy's) for smooth penalties."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from calibrant.softmax.penalties import Ridge
from calibrant.softmax.problem import Point, SoftmaxProblem
from calibrant.softmax.solvers.solution import Solution, certify
from calibrant.softmax.solvers.solver import Solver
from calibrant.typing import FloatArray


class LBFGS(Solver):
    """L-BFGS for a ridge penalty or none, stopped by the duality gap where there is one."""

    name = "lbfgs"
    max_iter = 5000
    needs_smooth = True

    def minimise(
        self, problem: SoftmaxProblem, penalty: Ridge, *, tol: float, max_iter: int, theta: FloatArray | None = None
    ) -> Solution:
        start = np.zeros(problem.shape) if theta is None else theta
        latest = {"gap": np.inf, "objective": np.inf}
        spare: Point | None = None

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            nonlocal spare
            coefficients = flat.reshape(problem.shape)
            spare = point = problem.at(coefficients, reuse=spare)
            gradient = point.gradient() + penalty.gradient(coefficients)
            value = point.loss + penalty.value(coefficients)
            latest["gap"] = penalty.conjugate(gradient) if penalty.certifies else np.nan
            latest["objective"] = value
            return value, gradient.ravel()

        def stop(_: FloatArray) -> None:
            if latest["gap"] <= tol * max(1.0, latest["objective"]):
                raise StopIteration

        # Without a gap the gradient decides: its norm must shrink like the square root of the decrement.
        gradient_tolerance = 0.0 if penalty.certifies else min(np.sqrt(tol) * 1e-3, 1e-5)
        options = {"maxiter": max_iter, "maxfun": 4 * max_iter, "ftol": 0.0, "gtol": gradient_tolerance, "maxcor": 20}
        result = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", callback=stop, options=options)
        theta = np.asarray(result.x).reshape(problem.shape)
        solution = certify(problem, penalty, theta, int(result.nit), tol)
        if not penalty.certifies:
            solution.converged |= solution.residual <= 10.0 * gradient_tolerance
        return solution
