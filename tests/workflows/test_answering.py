"""What is said of the confidence in answers, and when."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binomtest

from calibrant import Answers
from calibrant.metrics.result_types import Estimate
from calibrant.sample import Sample, Size
from calibrant.workflows.answering import Trust, chosen_answers, held_out, judge


def answered(confidence, right) -> Sample:
    p = np.asarray(confidence, dtype=float)
    return Sample(np.column_stack([1 - p, p]), np.asarray(right).astype(int), classes=np.arange(2))


def drawn(confidence, truth, seed=0) -> Sample:
    return answered(confidence, np.random.default_rng(seed).random(len(confidence)) < truth)


P = np.linspace(0.3, 0.95, 400)


@pytest.mark.parametrize(
    ("sample", "headline", "said"),
    [
        (drawn(P, P), "No evidence against", ["% on average, and ", "The confidence tells right from wrong"]),
        (drawn(P, P - 0.25), "Do not take", [": it is over-confident.", "The confidence tells right from wrong"]),
        (drawn(P - 0.25, P), "Do not take", [": it is under-confident."]),
        (drawn(P, 1.25 - P), "Do not take", ["It is not proven that the confidence tells right from wrong"]),
        (drawn(P, np.where(P < 0.625, 0.2, 1.0)), "Do not take", [": it is right on average, but not everywhere."]),
        (answered(np.full(400, 0.99), np.ones(400)), "No evidence against", ["All answers are right: whether"]),
        (
            answered(np.full(400, 0.99), np.zeros(400)),
            "Do not take",
            ["over-confident", "No answer is right, so no threshold helps."],
        ),
        (answered(P[:6], [0, 1, 0, 1, 1, 1]), "Too few labels", ["This is based on 6 labels: label at least 50"]),
    ],
)
def test_what_is_said(sample, headline, said) -> None:
    found = judge(sample)
    assert found.headline.startswith(headline)
    for words in said:
        assert words in " ".join(found.sentences)
    assert str(sample.n_rows) in found.sentences[-1]


GAP = Estimate(0.1, 0.05, 0.15, 0.95)
UNPROVEN, PROVEN, ALL = (
    SimpleNamespace(threshold=at, alarms=Estimate(share, share, share, 0.95))
    for at, share in ((math.inf, 0.0), (0.8, 0.25), (0.1, 1.0))
)


@pytest.mark.parametrize(
    ("given", "headline", "said"),
    [
        (
            {},
            "Do not take",
            "The model claims 80.0% on average, and 70.0% (60.0% to 80.0%) of its answers are right: it",
        ),
        ({}, "Do not take", "it is over-confident. The confidence tells right from wrong: the right one has"),
        ({"size": Size(49)}, "Too few", "This is based on 49 labels: label at least 50 independent questions"),
        ({"size": Size(1)}, "Too few", "This is based on 1 label: "),
        ({"size": Size(400, groups=49)}, "Too few", "This is based on 400 labels on 49 groups of questions: label"),
        ({"size": Size(400, groups=50)}, "Do not take", "This is based on 400 labels on 50 groups of questions."),
        ({"p_value": 0.05}, "No evidence against", "of its answers are right. "),
        ({"gap": Estimate(0.1, 0.0, 0.2, 0.95)}, "Do not take", ": it is right on average, but not everywhere."),
        ({"gap": Estimate(-0.1, -0.2, -0.05, 0.95)}, "Do not take", ": it is under-confident."),
        ({"ranking": Estimate(0.6, 0.5, 0.7, 0.95)}, "Do not take", "It is not proven that the confidence tells right"),
        (
            {"thresholds": ((0.8, PROVEN), (0.9, UNPROVEN), (0.95, UNPROVEN))},
            "Do not take",
            "For 80% right answers abstain below a confidence of 80.0%: 25.0% of questions are then answered. No "
            "threshold is proven to give 90% right answers: ask for less, or label more.",
        ),
        ({"thresholds": ((0.8, ALL),)}, "Do not take", "For 80% right answers there is no need to abstain."),
    ],
)
def test_each_sentence_and_when_it_is_said(given, headline, said) -> None:
    accuracy, ranking = Estimate(0.7, 0.6, 0.8, 0.95), Estimate(0.8, 0.7, 0.9, 0.95)
    found = replace(Trust(Size(50), accuracy, GAP, ranking, 0.01, ()), **given)
    assert found.headline.startswith(headline)
    assert said in " ".join(found.sentences)


def test_answers_that_are_right_need_no_abstaining() -> None:
    found = judge(answered(np.full(600, 0.99), np.ones(600)))
    assert "For 99% right answers there is no need to abstain." in found.sentences


@pytest.mark.slow
def test_abstaining_keeps_what_it_promises_on_new_questions() -> None:
    """Nominal 95 %: of 40 samples, as many may break the promise as chance allows at the level 0.001."""
    rng, broken, named = np.random.default_rng(1), 0, 0
    new = rng.uniform(0.3, 1.0, 20_000)
    for seed in range(40):
        p = rng.uniform(0.3, 1.0, 300)
        for target, chosen in judge(drawn(p, p**2, seed)).thresholds[1:2]:
            if np.isfinite(chosen.threshold):
                named += 1
                broken += bool((new[new >= chosen.threshold] ** 2).mean() < target)
    assert named >= 20
    assert binomtest(broken, named, 0.05, alternative="greater").pvalue > 0.001


@pytest.mark.slow
def test_the_share_of_right_answers_is_in_its_interval_as_often_as_promised() -> None:
    rng, inside = np.random.default_rng(2), 0
    for _ in range(100):
        found = judge(drawn(rng.uniform(0.5, 1.0, 150), 0.7, int(rng.integers(1 << 30)))).accuracy
        inside += found.low <= 0.7 <= found.high
    assert inside >= 88


def test_groups_count_as_one_question_each() -> None:
    one = drawn(P[::4], P[::4] - 0.1)
    rows = np.repeat(np.arange(100), 5)
    copies = Sample(one.proba[rows], one.y[rows], groups=rows, classes=np.arange(2))
    alone, together = judge(one).accuracy, judge(copies).accuracy
    assert together.value == pytest.approx(alone.value)
    assert together.high - together.low == pytest.approx(alone.high - alone.low, rel=0.2)
    assert "This is based on 500 labels on 100 groups of questions." in judge(copies).sentences


def test_questions_are_calibrated_by_other_groups() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 3))
    answers = Answers.from_lists(3 * logits, rng.integers(0, 3, 60), groups=np.arange(60) // 2)
    p = held_out(answers)
    assert p.sum(axis=1) == pytest.approx(1.0)
    changed = answers.take(np.arange(60))
    changed.sample.y[0] = (changed.sample.y[0] + 1) % 3  # the label of a question changes neither it nor its group
    again = held_out(changed)
    assert (again[:2] == p[:2]).all()
    assert (again != p).any()
    assert chosen_answers(answers).names == [0, 1]
