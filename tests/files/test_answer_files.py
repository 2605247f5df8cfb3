"""Answers of language models in files: every form gives the same numbers, and bad lines are named."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from calibrant import read_answers
from calibrant.files.tables.answer_files import holds_options
from calibrant.files.tables.table import TableError
from calibrant.inputs.words import RequestError

LOGS = [math.log(0.2), math.log(0.7), math.log(0.1)]
LETTERS = ["A", "B", "C"]


def write(tmp_path, *records, name="answers.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records) + "\n")
    return path


PLAIN = {"question": "?", "options": LETTERS, "logprobs": LOGS, "answer": 1}
HARNESS = {
    "doc_id": 3,
    "doc": {"question": "?"},
    "target": "1",
    "arguments": {f"gen_args_{j}": {"arg_0": "?", "arg_1": f" {'x' * (j + 1)}"} for j in range(3)},
    "resps": [[[str(x), "False"]] for x in LOGS],
    "filtered_resps": [[str(x), "False"] for x in LOGS],
    "acc": 1.0,
}
TOP = [{"token": " A", "logprob": LOGS[0]}, {"token": "B", "logprob": LOGS[1]}, {"token": "(C)", "logprob": LOGS[2]}]
CHAT = {"choices": [{"logprobs": {"content": [{"token": "B", "logprob": LOGS[1], "top_logprobs": TOP}]}}]}
PAIRS = {" A": LOGS[0], "B": LOGS[1], "C": LOGS[2]}
VLLM = {str(j): {"logprob": LOGS[j], "rank": j, "decoded_token": LETTERS[j]} for j in range(3)}
NAMED = {"options": ["red", "green", "blue"], "answer": "green"}


@pytest.mark.parametrize(
    "record",
    [
        PLAIN,
        PLAIN | {"answer": "B"},
        PLAIN | {"answer": ["B"]},
        PLAIN | {"logprobs": dict(zip(LETTERS, LOGS))},
        {"logprobs": dict(zip(LETTERS, LOGS)), "answer": "B"},
        {"choices": LETTERS, "loglikelihoods": LOGS, "gold": 1},
        {"options": [10, 20, 30], "logprobs": LOGS, "answer": 20},
        {"options": ["10", "20", "30"], "logprobs": LOGS, "answer": "20"},
        {"options": LETTERS, "probs": [0.2, 0.7, 0.1], "answer": 1},
        {key: value for key, value in HARNESS.items() if key != "filtered_resps"},
        HARNESS,
        HARNESS | {"target": "xx"},
        HARNESS | {"target": 1, "arguments": [["?", " x"], ["?", " xx"], ["?", " xxx"]]},
        CHAT | NAMED,
        {"response": {"body": CHAT}, "custom_id": "7"} | NAMED,
        {"response": CHAT} | NAMED,
        {"choices": [{"logprobs": {"tokens": ["B"], "top_logprobs": [PAIRS]}}]} | NAMED,
        {"outputs": [{"logprobs": [VLLM]}]} | NAMED,
        {"logprobs": [VLLM]} | NAMED,
        {"logprobs": [PAIRS]} | NAMED,
        {"logprobs": PAIRS} | NAMED,
        {"top_logprobs": TOP} | NAMED,
        {"top_logprobs": TOP, "options": LETTERS, "answer": "B"},
    ],
)
def test_every_form_gives_the_same_question(tmp_path, record):
    path = write(tmp_path, record)
    assert holds_options(path)
    answers = read_answers(path)
    assert answers.sample.proba == pytest.approx(np.array([[0.2, 0.7, 0.1]]), abs=1e-12)
    assert answers.sample.y.tolist() == [1]
    assert answers.notes == ()
    assert read_answers(path, labelled=False).sample.y.tolist() == [-1]


def test_lengths_are_those_of_scored_options(tmp_path):
    assert read_answers(write(tmp_path, HARNESS)).lengths.tolist() == [[2, 3, 4]]
    assert read_answers(write(tmp_path, PLAIN | NAMED)).lengths.tolist() == [[3, 5, 4]]
    assert read_answers(write(tmp_path, CHAT | NAMED)).lengths is None


def test_options_without_their_question_are_left_out(tmp_path):
    pairs = [["?", "a"], ["?", "b"], ["", "a"], ["", "b"]]
    record = {"filtered_resps": [[-1, False], [-2, False], [-3, False], [-9, False]], "arguments": pairs, "target": 0}
    assert read_answers(write(tmp_path, record)).n_options.tolist() == [2]
    asked = [["?", "a"], ["?", "b"], ["?", "c"], ["", "d"]]
    for other in (record | {"arguments": asked}, {key: record[key] for key in ("filtered_resps", "target")}):
        assert read_answers(write(tmp_path, other)).n_options.tolist() == [4]
    two = {"filtered_resps": [-1, -2], "arguments": [["?", "a"], ["", "b"]], "target": 0}
    assert read_answers(write(tmp_path, two)).n_options.tolist() == [2]


def test_options_that_are_not_listed_get_the_smallest_probability(tmp_path):
    record = {"logprobs": {"A": -0.1, "B": -3.0, "the": -4.0}, "options": LETTERS, "answer": "C"}
    answers = read_answers(write(tmp_path, record))
    assert np.diff(answers.sample.values[0]) == pytest.approx([-2.9, -1.0])
    assert answers.notes == (
        "1 of 1 questions have options that are not among the tokens listed; they get the smallest listed probability",
    )


def test_questions_on_one_document_are_a_group(tmp_path):
    rows = [PLAIN | {"question": str(i), "document": f"d{i // 2}"} for i in range(6)]
    assert read_answers(write(tmp_path, *rows)).sample.n_groups == 3
    rows = [PLAIN | {"question": str(i // 3)} for i in range(6)]
    assert read_answers(write(tmp_path, *rows)).sample.n_groups == 2
    rows = [HARNESS | {"doc_id": i, "doc": {"passage": f"p{i % 2}"}} for i in range(6)]
    assert read_answers(write(tmp_path, *rows)).sample.n_groups == 2
    assert read_answers(write(tmp_path, PLAIN, PLAIN | {"question": "!"})).sample.groups is None


@pytest.mark.parametrize(
    ("said", "notes"),
    [
        ([0.9, 0.25, 0.0], ()),
        ([90, 25, 0], ("confidences are read as percentages",)),
        (["90%", "25 %", "0%"], ()),
    ],
)
@pytest.mark.parametrize(
    ("name", "truth", "values"),
    [
        ("confidence", "correct", [True, False, False]),
        ("judge_score", "is_correct", [1, 0, 0]),
        ("p_true", "acc", ["yes", "No", "false"]),
    ],
)
def test_stated_confidences_are_found_by_their_names(tmp_path, said, notes, name, truth, values):
    answers = read_answers(write(tmp_path, *({name: p, truth: v} for p, v in zip(said, values))))
    assert answers.stated
    assert answers.notes == notes
    assert answers.correct.proba[:, 1] == pytest.approx([0.9, 0.25, 0.0], abs=1e-12)
    assert answers.correct.y.tolist() == [1, 0, 0]
    assert answers.correct.names == ["wrong", "right"]


def test_the_most_probable_option_is_the_answer(tmp_path):
    answers = read_answers(write(tmp_path, PLAIN, PLAIN | {"answer": 0, "question": "!"}))
    assert answers.correct.proba[:, 1] == pytest.approx([0.7, 0.7])
    assert answers.correct.y.tolist() == [1, 0]


TRUNCATED = json.dumps(PLAIN)[:-20]


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        (PLAIN, TRUNCATED, "no valid JSON object"),
        (PLAIN, "[1, 2]", "not a JSON object"),
        (PLAIN, PLAIN | {"logprobs": None}, "field 'logprobs' is missing or empty"),
        (
            PLAIN,
            PLAIN | {"logprobs": [-1.0, None, -2.0]},
            "field 'logprobs': None for option 1 is not a log-probability",
        ),
        (PLAIN, PLAIN | {"logprobs": [-1.0, float("nan"), -2.0]}, "field 'logprobs': nan for option 1"),
        (PLAIN, PLAIN | {"logprobs": [-1.0, -2.0]}, "field 'logprobs': 2 numbers for 3 options"),
        (
            PLAIN,
            PLAIN | {"logprobs": [0.2, 0.7, 0.1]},
            "field 'logprobs': they are probabilities: call the field 'probs'",
        ),
        (PLAIN, {"probs": [0.2, 0.7, 0.3], "answer": 1}, "field 'probs': they do not sum to 1"),
        (PLAIN, PLAIN | {"answer": 3}, "field 'answer': '3' is not one of the 3 options"),
        (PLAIN, PLAIN | {"answer": -1}, "field 'answer': '-1' is not one of the 3 options"),
        (PLAIN, PLAIN | {"answer": "E"}, "field 'answer': 'E' is not one of the 3 options"),
        (PLAIN, PLAIN | {"answer": "purple"}, "field 'answer': 'purple' is not one of the 3 options"),
        (PLAIN, PLAIN | {"answer": None}, "field 'answer' is missing or empty"),
        (PLAIN, {"logprobs": [PAIRS], "answer": "B"}, "field 'options' is missing: which of the tokens are options"),
        (PLAIN, {"logprobs": [{"the": -1.0}]} | NAMED, "none of the 3 options, by text or letter, is among the tokens"),
        (PLAIN, HARNESS, "the fields options, logprobs and answer are expected, as above; doc_id, doc"),
        (PLAIN, {"confidence": 0.9, "correct": True}, "the fields options, logprobs and answer are expected"),
        (
            HARNESS,
            HARNESS | {"filtered_resps": ["So 4"], "resps": [["So 4"]]},
            "'So 4' is not a log-probability; generated",
        ),
        (HARNESS, HARNESS | {"filtered_resps": [["-1", "True"]]}, "field 'filtered_resps': 1 option, at least two"),
        (HARNESS, HARNESS | {"target": "9"}, "field 'target': '9' is not one of the 3 options"),
        ({"confidence": 0.9, "correct": True}, {"confidence": "sure", "correct": True}, "'sure' is not a number"),
        ({"confidence": 0.9, "correct": True}, {"confidence": -1, "correct": True}, "-1 is neither a probability nor"),
        ({"confidence": 0.9, "correct": True}, {"confidence": 0.9, "correct": "so"}, "'so' is neither true nor false"),
        (
            {"confidence": 0.9, "correct": True},
            {"confidence": 7, "correct": True},
            "divide scores by the maximum of their",
        ),
    ],
)
def test_bad_lines_are_named_by_file_line_and_field(tmp_path, good, bad, said):
    path = write(tmp_path, good, bad, good)
    with pytest.raises(TableError) as caught:
        read_answers(path)
    assert f"{path}, line 2: " in str(caught.value)
    assert said in str(caught.value)
    if "divide" not in said:
        answers = read_answers(path, skip_errors=True)
        assert answers.sample.rows.tolist() == [1, 3]
        assert answers.notes == ("skipped 1 lines, first line 2",)


def test_scores_on_another_scale_are_read_once_they_are_divided(tmp_path):
    path = write(tmp_path, *({"score": s / 10, "correct": s > 5} for s in (2, 7, 9)))
    assert read_answers(path).correct.proba[:, 1] == pytest.approx([0.2, 0.7, 0.9])


def test_other_files_are_not_taken_for_answers(tmp_path):
    for record in ({"p_a": 0.2, "p_b": 0.8, "y": "a"}, {"confidence": 0.3}, {"probability": 0.2, "label": 1}):
        path = write(tmp_path, record)
        assert not holds_options(path)
        with pytest.raises(TableError, match="holds no language model answers"):
            read_answers(path)
    assert not holds_options(tmp_path / "nowhere.jsonl")
    assert not holds_options(write(tmp_path, "a,b", name="table.csv"))
    with pytest.raises(RequestError, match="there is no file"):
        read_answers(tmp_path / "nowhere.jsonl")
    with pytest.raises(TableError, match="has no usable line; the first problem is: field 'answer'"):
        read_answers(write(tmp_path, PLAIN | {"answer": 9}), skip_errors=True)


@pytest.mark.parametrize(("probs", "taken"), [([0.5, 0.495], True), ([0.5, 0.485], False), ([0.6, 0.415], False)])
def test_probabilities_of_options_sum_to_one_up_to_rounding(tmp_path, probs, taken):
    path = write(tmp_path, {"options": ["a", "b"], "probs": probs, "answer": 0})
    if taken:
        assert read_answers(path).sample.proba[0] == pytest.approx(np.array(probs) / sum(probs))
    else:
        with pytest.raises(TableError, match="field 'probs': they do not sum to 1"):
            read_answers(path)
