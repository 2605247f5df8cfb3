"""`report`, `evaluate`, `fit` and `apply` on files of answers of language models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibrant import OptionCalibrator, get_calibrator, load, metrics, read_answers
from calibrant.simplex import log_softmax
from tests.cli.test_commands import ok, run

LETTERS = "ABCDE"


def lines(path: Path, records: list[dict]) -> Path:
    path.write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    return path


def asked(n: int = 300, temperature: float = 2.5, seed: int = 0) -> list[dict]:
    """Questions on documents, two on each, with two to five options and an over-confident model."""
    rng, made = np.random.default_rng(seed), []
    for i in range(n):
        k = int(rng.integers(2, 6))
        true = log_softmax(rng.normal(scale=1.5, size=k))
        made.append(
            {
                "document_id": i // 2,
                "options": list(LETTERS[:k]),
                "logprobs": log_softmax(temperature * true).tolist(),
                "answer": LETTERS[int(rng.choice(k, p=np.exp(true)))],
            }
        )
    return made


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    return lines(tmp_path / "samples.jsonl", asked())


def stated(n: int = 300) -> list[dict]:
    rng = np.random.default_rng(0)
    said = rng.choice([0.6, 0.8, 0.9, 0.95, 1.0], n)
    return [
        {"question": f"q{i // 3}", "confidence": float(p), "correct": bool(rng.random() < p - 0.3)}
        for i, p in enumerate(said)
    ]


def test_evaluate_judges_options_before_and_after(samples: Path) -> None:
    found = json.loads(ok("evaluate", samples, "--ci", "--json").stdout)
    answers = read_answers(samples)
    p, y = answers.sample.proba, answers.sample.y
    assert found["rows"] == 300
    assert found["groups"] == 150
    assert found["metrics"]["log_loss"]["value"] == pytest.approx(metrics.log_loss(y, p))
    assert found["metrics"]["accuracy"]["value"] == pytest.approx((p.argmax(axis=1) == y).mean())
    assert found["calibrated"]["log_loss"]["value"] < found["metrics"]["log_loss"]["value"] - 0.2
    assert found["gap"]["low"] > 0
    assert found["accuracy"]["value"] == pytest.approx(found["metrics"]["accuracy"]["value"])
    said = ok("evaluate", samples).stdout
    assert "300 rows in 150 groups, questions with 2 to 5 options" in said
    assert "Do not take the confidence at face value." in said
    assert ": it is over-confident." in said
    assert "This is based on 300 labels on 150 groups of questions." in said


def test_fit_and_apply_calibrate_all_options_and_are_read_again(samples: Path, tmp_path: Path) -> None:
    done = ok("fit", samples, "-o", tmp_path / "cal.json")
    assert "The model was over-confident" in done.stdout
    answers = read_answers(samples)
    expected = OptionCalibrator().fit(answers).predict_proba(answers)
    np.testing.assert_array_equal(load(tmp_path / "cal.json").predict_proba(answers), expected)
    ok("apply", tmp_path / "cal.json", samples, "-o", tmp_path / "new.jsonl")
    np.testing.assert_allclose(read_answers(tmp_path / "new.jsonl").sample.proba, expected, atol=1e-12)
    first = json.loads((tmp_path / "new.jsonl").read_text().splitlines()[0])
    assert list(first) == ["document_id", "options", "answer", "probs", "choice", "confidence"]
    assert first["confidence"] == max(first["probs"]) == first["probs"][first["choice"]]
    ok("apply", tmp_path / "cal.json", samples, "-o", tmp_path / "kept.jsonl", "--suffix", "_cal")
    kept = json.loads((tmp_path / "kept.jsonl").read_text().splitlines()[0])
    assert kept["probs_cal"] == first["probs"]
    assert "logprobs" in kept


def test_a_named_method_calibrates_the_confidence_in_the_answer(samples: Path, tmp_path: Path) -> None:
    ok("fit", samples, "-m", "platt-logits", "-o", tmp_path / "cal.json")
    ok("apply", tmp_path / "cal.json", samples, "-o", tmp_path / "new.jsonl")
    chosen = read_answers(samples).correct
    made = get_calibrator("platt-logits").fit(chosen.proba, chosen.y).predict_proba(chosen.proba)[:, 1]
    written = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    np.testing.assert_allclose([line["confidence"] for line in written], made, atol=1e-9)
    assert "probs" not in written[0]
    # What was written has the confidence alone, and whether it is right where the answer is known: it is read again.
    again = json.loads(ok("evaluate", tmp_path / "new.jsonl", "--json").stdout)
    assert again["metrics"]["log_loss"]["value"] == pytest.approx(metrics.log_loss(chosen.y, made))


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_stated_confidences_are_found_by_their_usual_names(tmp_path: Path, format: str) -> None:
    records = stated()
    file = tmp_path / f"t.{format}"
    table = pd.DataFrame(records)
    {
        "jsonl": lambda: lines(file, records),
        "csv": lambda: table.to_csv(file),
        "parquet": lambda: table.to_parquet(file),
    }[format]()
    named = ["--label", "correct", "--probs", "confidence", "--group-by", "question"]
    done = ok("evaluate", file, "--json")
    assert "'confidence' is read as the probability that 'correct' is true" in done.stderr
    assert "rows with the same 'question' belong together" in done.stderr
    found, alone = json.loads(done.stdout), json.loads(ok("evaluate", file, *named, "--json").stdout)
    assert {name: found[name] for name in alone} == alone
    ok("fit", file, "-m", "platt-logits", "-o", tmp_path / "cal.json")
    ok("apply", tmp_path / "cal.json", file, "-o", tmp_path / f"new.{format}")
    after = json.loads(ok("evaluate", tmp_path / f"new.{format}", "--json").stdout)["metrics"]
    assert abs(after["positive_gap"]["value"]) < 0.01


def test_watch_takes_the_rows_of_a_question_together_as_a_fit_does(tmp_path: Path) -> None:
    file = lines(tmp_path / "stated.jsonl", stated())
    fitted = ok("fit", file, "-m", "ts", "-o", tmp_path / "cal.json")
    watch = ["watch", tmp_path / "cal.json", file, "-y", "correct", "--json", "--state"]
    found = ok(*watch, tmp_path / "found.json")
    assert found.stderr == fitted.stderr
    assert "rows with the same 'question' belong together" in found.stderr
    named = ok(*watch, tmp_path / "named.json", "--group-by", "question")
    assert found.stdout == named.stdout
    # Rows are only taken apart where somebody says so.
    alone = ok(*watch, tmp_path / "alone.json", "--blocks", "1")
    assert alone.stdout != found.stdout
    assert "belong together" not in alone.stderr


def test_questions_with_options_are_watched_by_the_confidence_in_the_answer(samples: Path, tmp_path: Path) -> None:
    ok("fit", samples, "-o", tmp_path / "cal.json")
    refused = run("watch", tmp_path / "cal.json", samples, "--state", tmp_path / "state.json")
    assert refused.exit_code == 2
    assert "--probs" not in refused.stderr
    assert "give a file with columns `confidence` and `correct`, and a calibrator that was fitted" in refused.stderr
    ok("fit", samples, "-m", "none", "-o", tmp_path / "none.json")
    ok("apply", tmp_path / "none.json", samples, "-o", tmp_path / "said.jsonl")
    ok("fit", tmp_path / "said.jsonl", "-m", "ts", "-o", tmp_path / "ts.json")
    watch = ["watch", tmp_path / "ts.json", tmp_path / "said.jsonl", "-y", "correct", "--json"]
    found = json.loads(ok(*watch, "--state", tmp_path / "state.json").stdout)
    assert found["labelled_rows"] == 300
    assert not found["alarm"]


def test_evaluate_says_whether_a_stated_confidence_can_be_trusted(tmp_path: Path) -> None:
    file = lines(tmp_path / "stated.jsonl", stated())
    said, found = ok("evaluate", file).stdout, json.loads(ok("evaluate", file, "--json").stdout)
    assert "Do not take the confidence at face value." in said
    right = np.mean([record["correct"] for record in stated()])
    assert found["accuracy"]["value"] == pytest.approx(right)
    assert f"and {100 * right:.1f}% (" in said
    assert "face value" not in ok("evaluate", file, "--label", "correct", "--probs", "confidence").stdout


def test_questions_that_are_all_different_are_no_groups(tmp_path: Path) -> None:
    file = lines(tmp_path / "t.jsonl", [row | {"question": f"q{i}"} for i, row in enumerate(stated())])
    done = ok("evaluate", file, "--json")
    assert "belong together" not in done.stderr
    assert "groups" not in json.loads(done.stdout)


def test_judge_scores_of_another_scale_are_calibrated_as_scores(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(1, 11, 400)
    records = [{"judge_score": int(s), "correct": bool(rng.random() < s / 12)} for s in scores]
    file = lines(tmp_path / "judged.jsonl", records)
    refused = run("report", file, "-o", tmp_path / "r.html")
    assert refused.exit_code == 2
    assert "'judge_score' reaches 10" in refused.stderr
    assert "Turn them into probabilities with `calibrant fit --scores`" in refused.stderr
    ok("fit", file, "--scores", "-m", "platt-logits", "-o", tmp_path / "cal.json")
    ok("apply", tmp_path / "cal.json", file, "-o", tmp_path / "new.jsonl")
    after = json.loads(ok("evaluate", tmp_path / "new.jsonl", "--json").stdout)
    assert after["calibration_test"]["p_value"] > 0.01


def test_the_report_says_on_one_page_whether_and_where(samples: Path, tmp_path: Path) -> None:
    done = ok("report", samples, "--methods", "ts", "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    for said in ("Can the confidence be trusted?", "Do not take the confidence at face value", "Abstain below"):
        assert said in page
    assert "This is based on 300 labels on 150 groups of questions." in done.stdout
    assert "abstain below a confidence of" in done.stdout
    assert "Columns" not in done.stdout
    found = json.loads(ok("report", samples, "--methods", "ts", "-o", tmp_path / "r.html", "-f", "--json").stdout)
    assert [row["right"] for row in found["trust"]["thresholds"]] == [0.7, 0.8, 0.9, 0.95]
    commands = found["next"]
    assert commands[0].startswith(f"calibrant fit {samples} --method ts")
    assert commands[1] == "calibrant apply calibrator.json NEW.jsonl -o CALIBRATED.jsonl"
    assert commands[2] == "calibrant evaluate CALIBRATED.jsonl --ci"


def test_few_labels_are_said_to_be_few(tmp_path: Path) -> None:
    file = lines(tmp_path / "six.jsonl", asked(6))
    for command in (["evaluate", file], ["report", file, "-o", tmp_path / "r.html"]):
        said = ok(*command).stdout
        assert "label at least 50 independent questions, preferably 200" in said
        assert "abstain" not in said


def test_options_that_say_nothing_of_answers_are_refused(samples: Path) -> None:
    done = run("evaluate", samples, "--logits")
    assert done.exit_code == 2
    assert "holds questions with options, where --logits has no meaning: leave it out" in done.stderr


def test_weights_and_groups_of_answers(tmp_path: Path) -> None:
    records = asked(100)
    weighted = lines(tmp_path / "w.jsonl", [row | {"n": i % 3, "topic": i // 10} for i, row in enumerate(records)])
    repeated = lines(
        tmp_path / "r.jsonl", [row | {"topic": i // 10} for i, row in enumerate(records) for _ in range(i % 3)]
    )
    one, other = (
        json.loads(ok("evaluate", file, "--group-by", "topic", *more, "--json").stdout)
        for file, more in ((weighted, ["--weight", "n"]), (repeated, []))
    )
    assert one["groups"] == other["groups"] == 10
    assert one["metrics"]["log_loss"]["value"] == pytest.approx(other["metrics"]["log_loss"]["value"])
    wrong = lines(tmp_path / "x.jsonl", [records[0] | {"n": -1}])
    assert "field 'n': -1 is not a weight" in run("evaluate", wrong, "--weight", "n").stderr


def test_bad_lines_are_named_and_skipped(tmp_path: Path) -> None:
    file = lines(tmp_path / "t.jsonl", [*asked(60), {"options": ["A", "B"], "logprobs": [-1.0], "answer": "A"}])
    stopped = run("evaluate", file)
    assert stopped.exit_code == 1
    assert "line 61: field 'logprobs': 1 numbers for 2 options. --on-error skip leaves such rows out." in stopped.stderr
    done = ok("evaluate", file, "--on-error", "skip")
    assert "skipped 1 lines, first line 61" in done.stderr
    assert "60 rows" in done.stdout
