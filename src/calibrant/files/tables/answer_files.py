"""Answers of language models in JSON Lines: what evaluation harnesses, APIs and judges write, found by its usual names.

Three forms are known. *Samples of lm-evaluation-harness* have the log-likelihood of each option in `filtered_resps` (or
`resps`), the options in `arguments` and the right one in `target`. *Options with log-probabilities* have `options`,
`answer` and `logprobs`: one number for each option, or the most probable tokens as OpenAI's and vLLM's APIs return
them. *Stated confidences* have a number such as `confidence` or `judge_score`, and `correct`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant.files.tables.cells import to_text
from calibrant.files.tables.formats import JsonLinesTable
from calibrant.files.tables.table import Table, TableError, file_format
from calibrant.inputs.answers import WRONG_RIGHT, Answers, check_answer, check_options
from calibrant.inputs.words import RequestError

_RESPONSES, _OPTIONS = ("filtered_resps", "resps"), ("options", "choices")
_ANSWER = ("answer", "target", "label", "gold")
_LOGPROBS = ("logprobs", "log_probs", "loglikelihoods", "top_logprobs")
_PROBABILITIES = ("probs", "probabilities")
#: Where responses of APIs keep the log-probabilities of tokens: chat and text completions, their batches, vLLM.
_RESPONSE_PATHS: tuple[tuple[str | int, ...], ...] = (
    ("choices", 0, "logprobs"),
    ("response", "choices", 0, "logprobs"),
    ("response", "body", "choices", 0, "logprobs"),
    ("outputs", 0, "logprobs"),
)
_CONFIDENCE = (
    "confidence",
    "verbalized_confidence",
    "verbalised_confidence",
    "p_true",
    "judge_score",
    "score",
    "rating",
)
_CORRECT = ("correct", "is_correct", "judged_correct", "acc", "exact_match")
_YES_NO = {"true": 1, "yes": 1, "1": 1, "1.0": 1, "false": 0, "no": 0, "0": 0, "0.0": 0}
#: What tells which questions belong together, the widest first.
_DOCUMENT = ("document_id", "document", "passage_id", "passage", "article", "doc_hash", "doc_id")
_TOGETHER = (*_DOCUMENT, "question_id", "qid", "question", "prompt")
#: Fields of log-probabilities, which lines with calibrated probabilities no longer have.
RAW_FIELDS = frozenset((*_RESPONSES, *_LOGPROBS, *_PROBABILITIES))
#: Lines among which one that can be understood tells the form of a file.
_FIRST_LINES = 20


class _Question(NamedTuple):
    """Log-probabilities of options, or a stated confidence alone, the right one, and how many were not listed."""

    values: Sequence[float]
    right: int = -1
    texts: Sequence[str] = ()
    unlisted: int = 0
    line: int = 0
    group: str = ""
    weight: float = 1.0


def read_answers(
    path: str | Path,
    *,
    labelled: bool = True,
    skip_errors: bool = False,
    weight: str | None = None,
    group_by: str | None = None,
) -> Answers:
    """Read the answers of a language model from a JSON Lines file.

    The form is found by the names of the fields: samples of lm-evaluation-harness, options with log-probabilities (one
    for each option, or the top tokens of OpenAI's and vLLM's APIs), or stated confidences and judge scores with
    `correct`. Questions on one document, and copies of one question, are a group.

    Parameters
    ----------
    path : str or Path
        A .jsonl file, which may be compressed (.jsonl.gz).
    labelled : bool, default=True
        Whether to read which answers are right; new questions have none.
    skip_errors : bool, default=False
        Leave out lines that cannot be used instead of raising an error that names file, line and field.
    weight : str, default=None
        Field that says how many observations a line counts for.
    group_by : str, default=None
        Field that tells which questions belong together; by default that of a document or a question.

    Returns
    -------
    Answers

    Examples
    --------
    >>> import os, tempfile
    >>> from calibrant import read_answers
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "answers.jsonl")
    ...     with open(path, "w") as file:
    ...         _ = file.write('{"options": ["3", "4"], "logprobs": [-2.0, -0.5], "answer": "4"}')
    ...     read_answers(path).sample.proba.round(2).tolist()
    [[0.18, 0.82]]
    """
    if not Path(path).is_file():
        raise RequestError(f"there is no file {path}")
    table = JsonLinesTable(Path(path))
    form = _form_of(table, labelled)
    if form is None:
        raise TableError(
            f"{table.name} holds no language model answers: {'; or '.join(_FIELDS.values())} are expected, "
            f"{', '.join(table.columns)[:200]} are found"
        )
    questions = []
    for number, record in table.objects(skip_errors):
        try:
            if _form(record, labelled) is not form:
                raise ValueError(
                    f"the fields {_FIELDS[form]} are expected, as above; {', '.join(record)[:200]} are found"
                )
            group, count = _group(record, number, group_by), _count(record, weight)
            questions.append(form(record, labelled)._replace(line=number, group=group, weight=count))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            plain = isinstance(error, ValueError)
            reason = str(error) if plain else f"cannot be understood ({type(error).__name__}: {error})"
            table.leave_out(number, reason, skip_errors)
    if not questions:
        raise TableError(f"{table.name} has no usable line; the first problem is: {table.skipped[0][1]}")
    made = _answers(table.name, form, questions)
    lines = np.array([question.line for question in questions if question.weight > 0])
    skipped = [f"skipped {len(table.skipped):,} lines, first line {table.skipped[0][0]}"] if table.skipped else []
    return replace(made, sample=replace(made.sample, rows=lines), notes=(*skipped, *made.notes))


def holds_options(path: str | Path) -> bool:
    """Whether a file is JSON Lines with questions and log-probabilities of their options, by its first lines."""
    if not Path(path).is_file():
        return False
    try:
        form = _form_of(JsonLinesTable(Path(path)), labelled=False) if file_format(Path(path)) == "jsonl" else None
        return form in (_harness, _options)
    except (TableError, RequestError):
        return False


def right_options(path: str | Path, *, skip_errors: bool = False) -> dict[int, int] | None:
    """The number of the right option by the number of the line; `None` if answers are not known."""
    try:
        answers = read_answers(path, skip_errors=skip_errors)
    except TableError:
        return None
    return dict(zip(np.asarray(answers.sample.rows).tolist(), answers.sample.y.tolist()))


def stated_columns(table: Table) -> tuple[str, str, str | None] | None:
    """The columns of a stated confidence, of `correct` and of what questions belong to, by their usual names.

    The last is that of the first usual name which some rows share and none lacks; `None` if there is no such.
    """
    said, truth = (next((name for name in names if name in table.columns), "") for names in (_CONFIDENCE, _CORRECT))
    if not said or not truth:
        return None
    for name in (name for name in _TOGETHER if name in table.columns):
        batches = table.batches([name], skip_errors=True)
        texts = [text for batch in batches for text in to_text(batch.data.column(0)).to_pylist()]
        if all(texts) and len(set(texts)) < len(texts):
            return said, truth, name
    return said, truth, None


def _answers(name: str, form: _Form, questions: Sequence[_Question]) -> Answers:
    right = [question.right for question in questions]
    beside: dict[str, Any] = {
        "y": None if -1 in right else right,
        "groups": [question.group for question in questions],
        "sample_weight": [question.weight for question in questions],
    }
    if form is not _stated:
        lengths = [[len(text) for text in question.texts] for question in questions]
        values = [question.values for question in questions]
        made = Answers.from_lists(values, lengths=lengths if all(lengths) else None, **beside)
        unlisted = sum(question.unlisted > 0 for question in questions)
        note = (
            f"{unlisted:,} of {len(questions):,} questions have options that are not among the tokens listed; they get "
            "the smallest listed probability"
        )
        return replace(made, notes=(note,) if unlisted else ())
    said = np.array([question.values[0] for question in questions])
    if 1.0 < said.max() <= 10.0:
        raise TableError(
            f"{name}, line {questions[int(said.argmax())].line}: {said.max():g}, the largest confidence, is neither a "
            "probability nor a percentage; divide scores by the maximum of their scale"
        )
    p = said / (100.0 if said.max() > 1.0 else 1.0)
    with np.errstate(divide="ignore"):
        made = Answers.from_lists(np.log(np.column_stack([1.0 - p, p])).tolist(), **beside)
    notes = ("confidences are read as percentages",) if said.max() > 1.0 else ()
    return replace(made, sample=replace(made.sample, classes=np.array(WRONG_RIGHT)), stated=True, notes=notes)


def _first(record: Mapping[str, object], names: Iterable[str], *, required: bool = True) -> str:
    """The first of these fields that has a value; an error, or an empty name, if none has."""
    name = next((name for name in names if record.get(name) not in (None, "", [], {})), "")
    if required and not name:
        raise ValueError(
            f"field {next((name for name in names if name in record), next(iter(names)))!r} is missing or empty"
        )
    return name


def _harness(record: Mapping[str, Any], labelled: bool) -> _Question:
    name, values = _first(record, _RESPONSES), []
    for response in record[name]:
        while isinstance(response, list) and response:  # [log-likelihood, greedy], in `resps` for each repetition
            response = response[0]
        try:
            values.append(float(response))
        except (TypeError, ValueError):
            raise ValueError(
                f"field {name!r}: {str(response)[:40]!r} is not a log-probability; generated text has no options"
            ) from None
    pairs = [_items(pair) for pair in _items(record.get("arguments") or [])]
    half = len(values) // 2
    if len(pairs) == len(values) == 2 * half > 2 and not any(str(pair[0]).strip() for pair in pairs[half:]):
        values, pairs = values[:half], pairs[:half]  # the second half are the options without their question
    texts = [str(pair[1]) for pair in pairs] if len(pairs) == len(values) else []
    check_options(f"field {name!r}", values)
    return _Question(values, _right(record, ("target",), texts, len(values)) if labelled else -1, texts)


def _options(record: Mapping[str, Any], labelled: bool) -> _Question:
    name = _first(record, (*_LOGPROBS, *_PROBABILITIES), required=_at_path(record) is None)
    value, name = (record[name], name) if name else (_at_path(record), "logprobs")
    listed: Any = next((record[key] for key in _OPTIONS if _are_plain(record.get(key))), [])
    texts, unlisted = [str(option) for option in _items(listed)], 0
    if isinstance(value, dict) and _are_plain(value) and (not texts or set(texts) <= set(value)):
        texts = texts or list(value)
        value = [value[text] for text in texts]
    kept = texts
    if isinstance(value, dict) or isinstance(value[0], (dict, list)):
        if not texts:
            raise ValueError("field 'options' is missing: which of the tokens are options?")
        value, unlisted = _listed(name, _places(value), texts)
        kept = []  # tokens of answers are alike, however long the options are
    elif texts and len(texts) != len(value):
        raise ValueError(f"field {name!r}: {len(value)} numbers for {len(texts)} options")
    values = check_options(f"field {name!r}", value)
    shares = values.min() >= 0 and values.max() <= 1 and abs(values.sum() - 1) < 0.01
    if shares != (name in _PROBABILITIES):
        advice = f"they are probabilities: call the field {_PROBABILITIES[0]!r}" if shares else "they do not sum to 1"
        raise ValueError(f"field {name!r}: {advice}")
    if shares:
        with np.errstate(divide="ignore"):
            values = np.log(values)
    right = _right(record, _ANSWER, texts, len(values)) if labelled else -1
    return _Question(values.tolist(), right, kept, unlisted)


def _stated(record: Mapping[str, object], labelled: bool) -> _Question:
    name = _first(record, _CONFIDENCE)
    text, right = str(record[name]).strip(), -1
    try:
        said = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        raise ValueError(f"field {name!r}: {text[:40]!r} is not a number") from None
    if not 0.0 <= said <= 100.0:
        raise ValueError(f"field {name!r}: {text[:40]} is neither a probability nor a percentage")
    if labelled:
        truth = _first(record, _CORRECT)
        right = _YES_NO.get(str(record[truth]).strip().casefold(), -1)
        if right < 0:
            raise ValueError(f"field {truth!r}: {str(record[truth])[:40]!r} is neither true nor false")
    return _Question([said], right)


_Form = Callable[[Mapping[str, Any], bool], _Question]
#: The fields of each form, as messages name them.
_FIELDS: dict[_Form, str] = {
    _harness: "filtered_resps and target",
    _options: "options, logprobs and answer",
    _stated: "confidence and correct",
}


def _form(record: Mapping[str, object], labelled: bool) -> _Form | None:
    if any(name in record for name in _RESPONSES):
        return _harness
    if any(name in record for name in (*_LOGPROBS, *_PROBABILITIES)) or _at_path(record) is not None:
        return _options
    told = not labelled or any(name in record for name in _CORRECT)
    return _stated if told and any(name in record for name in _CONFIDENCE) else None


def _form_of(table: JsonLinesTable, labelled: bool) -> _Form | None:
    found = [_form(record, labelled) for _, record in islice(table.objects(skip_errors=True), _FIRST_LINES)]
    table.skipped = []
    return next((form for form in found if form is not None), None)


def _items(values: Any) -> list[object]:
    return list(values.values()) if isinstance(values, dict) else list(values)


def _are_plain(values: object) -> bool:
    """Whether these are texts or numbers."""
    return isinstance(values, (list, dict)) and not any(isinstance(item, (list, dict)) for item in _items(values))


def _at_path(record: Mapping[str, object]) -> Any:
    """The log-probabilities of tokens in the response of an API, if there are any."""
    for path in _RESPONSE_PATHS:
        value: Any = record
        for key in path:
            try:
                value = value[key]
            except (LookupError, TypeError):
                value = None
        if value:
            return value
    return None


def _places(value: Any) -> list[dict[str, float]]:
    """The log-probabilities of the most probable tokens at each place of a text."""
    if isinstance(value, dict):
        inner = value.get("content") or value.get("top_logprobs")  # chat completions, text completions
        return _places(inner) if inner else [_tokens(value)]
    if "token" in value[0] and "top_logprobs" not in value[0]:
        return [_tokens(value)]  # the list of a single place
    return [_tokens([place, *place["top_logprobs"]] if "top_logprobs" in place else place) for place in value if place]


def _tokens(place: Any) -> dict[str, float]:
    """Tokens in lower case without the marks around them; those that become equal add up."""
    if isinstance(place, dict):  # {token: number}, or vLLM's {number: {"decoded_token": token, "logprob": number}}
        place = [item if isinstance(item, dict) else {"token": token, "logprob": item} for token, item in place.items()]
    spelled = {str(item.get("token", item.get("decoded_token"))): float(item["logprob"]) for item in place}
    found: dict[str, float] = {}
    for token, logprob in spelled.items():
        plain = token.strip(" \n\t().:").casefold()
        found[plain] = float(np.logaddexp(found.get(plain, -np.inf), logprob))
    return found


def _listed(name: str, places: Sequence[dict[str, float]], texts: Sequence[str]) -> tuple[list[float], int]:
    """The log-probability of each option at the first place where one is listed, and how many are not."""
    letters = [chr(ord("a") + option) for option in range(len(texts))]
    for labels in ([text.strip().casefold() for text in texts], letters):
        for place in places:
            found = [place.get(label) for label in labels]
            if found.count(None) < len(found):
                least = min(place.values())
                return [least if value is None else value for value in found], found.count(None)
    raise ValueError(f"field {name!r}: none of the {len(texts)} options, by text or letter, is among the tokens listed")


def _right(record: Mapping[str, object], names: Sequence[str], texts: Sequence[str], k: int) -> int:
    """The number of the right option, which may be given as its text, as a letter or as a number from 0."""
    name = _first(record, names)
    value = record[name]
    text = str(value[0] if isinstance(value, list) and len(value) == 1 else value).strip()
    plain = [option.strip() for option in texts]
    numbered = isinstance(value, int) and not all(option.isdigit() for option in plain)
    if text in plain and not numbered:
        return plain.index(text)
    number = ord(text.upper()) - ord("A") if len(text) == 1 and text.isalpha() else text
    try:
        return check_answer(f"field {name!r}", int(number), k)
    except ValueError:
        raise ValueError(f"field {name!r}: {text[:40]!r} is not one of the {k} options") from None


def _count(record: Mapping[str, object], name: str | None) -> float:
    value = 1.0 if name is None else record[_first(record, (name,))]
    if not (isinstance(value, (int, float)) and 0 <= value < np.inf):
        raise ValueError(f"field {name!r}: {str(value)[:40]} is not a weight; weights are finite and not negative")
    return float(value)


def _group(record: Mapping[str, object], number: int, group_by: str | None = None) -> str:
    """What a question belongs to, as text; a question that does not say stands alone."""
    inside = record.get("doc")
    known = {**(inside if isinstance(inside, dict) else {}), **record}
    name = _first(known, _TOGETHER if group_by is None else (group_by,), required=group_by is not None)
    return json.dumps(known[name], sort_keys=True) if name else f"line {number}"
