"""Several searches that share their passes over the rows.

A search is a generator: it yields what it wants to know (a point), is sent the answer (derivatives there) and returns
what it found. Where the rows are in memory each runs by itself; where passes are expensive, one answers them all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Found = TypeVar("Found")


def run(search: Generator[Question, Answer, Found], answer: Callable[[Question], Answer]) -> Found:
    """What a search finds by itself.

    Examples
    --------
    >>> def first_above(limit):
    ...     n = 0
    ...     while (yield n) <= limit:
    ...         n += 1
    ...     return n
    >>> run(first_above(10), lambda n: n * n)
    4
    """
    return run_together([search], lambda questions: {i: answer(question) for i, question in questions.items()})[0]


def run_together(
    searches: Sequence[Generator[Question, Answer, Found]],
    answer: Callable[[Mapping[int, Question]], Mapping[int, Answer]],
) -> list[Found]:
    """What each search finds; `answer` gets the questions of all that are not done yet, by their number."""
    found: dict[int, Found] = {}
    questions: dict[int, Question] = {}

    def advance(number: int, reply: Answer | None) -> None:
        try:
            # A generator is started by sending it None.
            questions[number] = searches[number].send(reply)  # type: ignore[arg-type]
        except StopIteration as end:
            found[number] = end.value
            questions.pop(number, None)

    for number in range(len(searches)):
        advance(number, None)
    while questions:
        for number, reply in answer(dict(questions)).items():
            advance(number, reply)
    return [found[number] for number in range(len(searches))]
