"""Newton's method for smooth penalties: a dense factorisation for few parameters, preconditioned conjugate
gradients on Hessian-vector products for many.

Large problems run in float32, which halves the time of the matrix products that dominate there, and their curvature
comes from some rows, redrawn for every step: it need not be exact, since loss and gradient are. The loss is summed and
the result certified in float64, on all rows.
"""

from __future__ import annotations

import numpy as np

from calibrant.softmax.penalties import Penalty, Ridge
from calibrant.softmax.problem import Point, SoftmaxProblem
from calibrant.softmax.solvers.preconditioners import MANY_FEATURES, ClassBlocks, ClassMeans
from calibrant.softmax.solvers.searches import (
    ARMIJO,
    LARGEST_DAMPING,
    NEGLIGIBLE,
    ROUNDING,
    SHORTEST,
    STALLED,
    Factored,
    NewtonMinimum,
    damped_newton,
    less_damping,
    more_damping,
)
from calibrant.softmax.solvers.solver import Solution, Solver
from calibrant.typing import FloatArray

# The sizes at which one way of computing takes over from another decide speed, not results: measure a change with
# `python benchmarks/speed.py`.
#: Up to this many parameters loss, gradient and Hessian are computed together and nothing is kept.
_TINY = 4
#: Up to this many parameters the dense Hessian is cheaper than conjugate gradients, for any number of rows ...
_DENSE = 48
#: ... and up to this many for own-class features, whose products BLAS cannot speed up.
_DENSE_OWN = 256
#: Below this many rows times squared parameters, every step but the last computes the dense Hessian of all rows: it
#: costs about as much as the loss, and quadratic convergence needs few steps.
_CHEAP = 2e7
#: With a larger gap, relative to the objective, no curvature makes a good step, however exact it is.
_FAR = 0.1
#: Problems with this many shared features, or with own-class features only and this many classes, are computed in
#: float32 with the curvature of a sample of the rows; `tol=None` then means the larger tolerance.
_LARGE_FEATURES = 60
_LARGE_CLASSES = 20
_LARGE_TOL = 1e-6
#: The gap that float32 always reaches; float64 takes over from there.
_FLOAT32_TOL = 1e-8
#: The sample for curvature has this many rows per feature, at least this many rows, and between these shares of all
#: rows; it is doubled when a step reduces the gap too little.
_ROWS_PER_FEATURE = 12
_LEAST_ROWS = 800
_LEAST_SHARE, _MOST_SHARE = 1.0 / 16.0, 0.25
#: Linear systems are solved to this share of the accuracy needed: products on a sample are cheap.
_AIM = 0.3
#: The factor by which such a step usually reduces the gap: if that is enough, the next point is computed in float64.
_LAST_CONTRACTION = 0.02
#: No step changes a logit by more than this: differences of exponentials beyond it are all zero or one.
_LARGEST_MOVE = 100.0
#: Steps that gain less than this are hardly ever too long, so their length is not tried on a sample first.
_SURE = 1e-4
#: A step that has to be shortened by more than this factor was too long because the sample for curvature is too small.
_TOO_LONG = 0.25

Preconditioner = Factored | ClassBlocks | ClassMeans


class Newton(Solver):
    """Newton's method for a ridge penalty or none."""

    name = "newton"
    needs_smooth = True

    def minimise(
        self, problem: SoftmaxProblem, penalty: Ridge, *, tol: float, max_iter: int, theta: FloatArray | None = None
    ) -> Solution:
        start = np.zeros(problem.shape) if theta is None else theta
        if problem.n_parameters <= _TINY:
            return _few_parameters(problem, penalty, start, tol, max_iter)
        n_iter = 0
        narrow = problem.single_precision() if _is_large(problem) else None
        if narrow is not None:
            rough = _iterate(narrow, penalty, start, max(tol, _FLOAT32_TOL), max_iter, certify=False)
            start, n_iter, narrow = rough.theta, rough.n_iter, None  # its memory is free for what follows
        return _iterate(problem, penalty, start, tol, max_iter, n_iter)

    def default_tol(self, problem: SoftmaxProblem, penalty: Penalty) -> float:
        return _LARGE_TOL if _is_large(problem) and penalty.certifies else self.tol


def _is_large(problem: SoftmaxProblem) -> bool:
    return problem.n_shared >= _LARGE_FEATURES or (problem.n_shared <= 1 and problem.n_classes >= _LARGE_CLASSES)


def _is_cheap(problem: SoftmaxProblem) -> bool:
    return problem.in_memory and _is_dense(problem) and problem.n_rows * problem.n_parameters**2 <= _CHEAP


def _is_dense(problem: SoftmaxProblem) -> bool:
    return problem.n_parameters <= (_DENSE if problem.n_shared > 1 else _DENSE_OWN)


def _curvature_share(problem: SoftmaxProblem, penalty: Ridge) -> float:
    """The share of the rows that curvature is taken from at first; the penalty makes up for directions they miss."""
    share = 1.0
    if penalty.certifies and _is_large(problem) and not _is_cheap(problem):
        rows = _ROWS_PER_FEATURE * max(problem.n_shared, problem.n_classes)
        share = float(np.clip(rows / problem.n_rows, _LEAST_SHARE, _MOST_SHARE))
        share = max(share, _LEAST_ROWS / problem.n_rows)
    return min(share, problem.curvature_share)


def _iterate(
    problem: SoftmaxProblem,
    penalty: Ridge,
    theta: FloatArray,
    tol: float,
    max_iter: int,
    n_iter: int = 0,
    *,
    certify: bool = True,
) -> Solution:
    """Newton steps until the gap (the decrement, if a direction is not penalised) is below `tol`.

    Every point is computed from the coefficients, never from the steps that led there, so that the certificate holds
    for what is returned. Without `certify` the caller computes the certificate, and the last step is not evaluated.
    """
    rng = np.random.default_rng(0)  # the same rows for the same data: results repeat bit for bit
    share = _curvature_share(problem, penalty)
    point = problem.at(theta)
    objective = point.loss + penalty.value(theta)
    decrement = np.inf
    # Newton starts near the optimum, where curvature changes little: a preconditioner is reused until CG slows.
    preconditioner: Preconditioner | None = None
    cheap, near, chord = _is_cheap(problem), False, False
    steps, t, longest = 0, 0.0, 1.0
    damping = 0.0
    least = 0.0 if penalty.certifies else ROUNDING
    gap, converged = np.nan, False
    while True:
        gradient = point.gradient() + penalty.gradient(theta)
        goal = tol * max(1.0, objective)
        if penalty.certifies:
            gap_before, gap = gap, penalty.conjugate(gradient)
            converged = gap <= goal
            if gap > STALLED * gap_before:
                share = min(2.0 * share, 1.0)
            # By as much as the last step brought the gap down the next one will at least; with the curvature of where
            # the last step began its error is twice as large, the gap four times. Two such steps cost less than one.
            contraction = gap / gap_before
            chord = (4.0 * contraction) ** 2 * gap <= goal
            near = (4.0 * contraction if chord else contraction) * gap <= goal
        if converged or (penalty.certifies and n_iter >= max_iter):
            break
        added = max(damping, least)
        curvature = penalty.curvature + added * problem.second_moments if added else penalty.curvature
        curved = point.thinned(share, rng) if share < 1.0 else point
        aim = goal if share == 1.0 else _AIM * goal
        before, fresh = decrement, False
        while True:
            if preconditioner is None or (cheap and not chord) or steps > preconditioner.patience:
                far = cheap and gap > _FAR * max(1.0, objective)
                preconditioner, fresh = _preconditioner(problem, curved, curvature, rough=far), True
            if (fresh or (cheap and chord)) and isinstance(preconditioner, Factored):
                step, steps = preconditioner.solve(-gradient), 0
            else:
                step, steps = _conjugate_gradients(curved, penalty, gradient, preconditioner, aim, curvature)
            slope = float(np.sum(gradient * step))
            decrement = -slope / 2.0
            # One made where there was more curvature stops the conjugate gradients too early, and flatters.
            if fresh or penalty.certifies or tol < decrement < STALLED * before:
                break
            preconditioner = None
        converged = not penalty.certifies and (objective <= tol or (decrement <= tol and damping <= NEGLIGIBLE))
        if converged or n_iter >= max_iter:
            break
        if not certify and ((cheap and near) or _LAST_CONTRACTION * gap <= goal):
            theta, n_iter = theta + step, n_iter + 1
            break
        # On the slope towards an optimum at infinity whole steps gain equally little: they may become longer.
        longest = 4.0 * longest if decrement >= STALLED * before and t == longest else 1.0
        # Only a step that promises a large gain can move logits too far: for others no pass is spent on finding out.
        t = longest if decrement < 1.0 else min(1.0, _LARGEST_MOVE / max(problem.largest_change(step), 1e-300))
        if problem.rough is not None and decrement > _SURE:
            t = _tried_on_some(problem.rough, penalty, theta, t * step, t * slope) * t
        while t > SHORTEST:
            moved = theta + t * step
            point = problem.at(moved, reuse=point)  # a second matrix of all rows would be felt
            value = point.loss + penalty.value(moved)
            # Rounding of the loss is forgiven: at the optimum no step decreases it measurably.
            if value <= objective + ARMIJO * t * slope + problem.precision * abs(objective):
                break
            t /= 2.0
        n_iter += 1
        if t < _TOO_LONG * longest:
            share = min(2.0 * share, 1.0)
        if t <= SHORTEST:  # saturated: hardly any curvature where the gradient is large, so the step is far too long
            if damping > LARGEST_DAMPING:
                break
            damping, preconditioner = more_damping(damping), None
            point = problem.at(theta, reuse=point)
            continue
        damping = less_damping(damping)
        theta, objective = moved, value
    return Solution(theta, objective, gap, np.nan if penalty.certifies else decrement, n_iter, converged)


def _tried_on_some(sample: SoftmaxProblem, penalty: Ridge, theta: FloatArray, step: FloatArray, slope: float) -> float:
    """The part of a step that is short enough on a sample of the rows, tilted to the slope that all rows have.

    This saves passes over all rows where each is expensive. If no part of the step is good on the sample, all of it is
    returned.
    """
    point = sample.at(theta)
    tilt = slope - float(np.sum((point.gradient() + penalty.gradient(theta)) * step))
    objective = point.loss + penalty.value(theta)
    t = 1.0
    while t > SHORTEST:
        moved = theta + t * step
        if sample.at(moved).loss + penalty.value(moved) + t * tilt <= objective + ARMIJO * t * slope:
            return t
        t /= 2.0
    return 1.0


def _few_parameters(problem: SoftmaxProblem, penalty: Ridge, theta: FloatArray, tol: float, max_iter: int) -> Solution:
    """Newton steps where a pass over the data that gives all derivatives is cheaper than bookkeeping."""

    def derivatives(at: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        loss, u, hessian = problem.derivatives(at)
        hessian.flat[:: at.size + 1] += penalty.curvature.ravel()
        return loss + penalty.value(at), u + penalty.gradient(at), hessian

    def error(at: NewtonMinimum) -> float:
        return penalty.conjugate(at.gradient) if penalty.certifies else at.decrement

    def enough(at: NewtonMinimum) -> bool:
        goal = tol * max(1.0, at.objective)
        return error(at) <= (goal if penalty.certifies else tol) or at.objective <= goal

    end = damped_newton(derivatives, theta, enough=enough, max_iter=max_iter, moments=problem.second_moments)
    gap, residual = (error(end), np.nan) if penalty.certifies else (np.nan, error(end))
    return Solution(end.theta, end.objective, gap, residual, end.n_iter, end.converged)


def _preconditioner(
    problem: SoftmaxProblem, point: Point, curvature: FloatArray, *, rough: bool = False
) -> Preconditioner:
    if _is_dense(problem):
        return Factored(point.rough_hessian() if rough else point.hessian(), curvature)
    if problem.n_shared >= MANY_FEATURES:
        return ClassMeans(point.class_moments(), curvature)
    return ClassBlocks(point.class_blocks(), curvature)


def _conjugate_gradients(
    point: Point,
    penalty: Ridge,
    gradient: FloatArray,
    preconditioner: Preconditioner,
    goal: float,
    curvature: FloatArray,
) -> tuple[FloatArray, int]:
    """Solve the Newton system until the residual is small relative to the gradient, or below what the goal needs.

    Returns the solution and how many products it took.
    """
    step = np.zeros_like(gradient)
    residual = -gradient
    solved = preconditioner.solve(residual)
    direction = solved
    size = first = float(np.sum(residual * solved))
    enough = first * min(0.2, np.sqrt(first)) ** 2
    steps = 0
    while steps < 20 + 2 * gradient.size:
        steps += 1
        product = point.hessian_vector_product(direction) + curvature * direction
        bend = float(np.sum(direction * product))
        if bend <= 0.0:  # rounding, at a residual that is rounding too
            break
        alpha = size / bend
        step += alpha * direction
        residual -= alpha * product
        solved = preconditioner.solve(residual)
        smaller = float(np.sum(residual * solved))
        if smaller <= enough or _below_goal(penalty, residual, smaller, goal):
            break
        direction = solved + (smaller / size) * direction
        size = smaller
    return step, steps


def _below_goal(penalty: Ridge, residual: FloatArray, size: float, goal: float) -> bool:
    """Whether the gap (the decrement) that this residual would leave is already below a tenth of the goal."""
    return (penalty.conjugate(residual) if penalty.certifies else size / 2.0) <= 0.1 * goal
