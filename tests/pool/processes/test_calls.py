"""Call files: a question and its answer, which is read whole or not at all."""

from __future__ import annotations

import os

from headrace.pool.executors.processes.calls import CallFile


def test_an_answer_belongs_to_its_question_and_is_read_once() -> None:
    call_file = CallFile()
    call_file.ask(1, b"how many?")
    assert call_file.question() == (1, b"how many?")
    assert call_file.answer_to(1) is None
    call_file.answer(1, b"x" * 100_000)
    assert call_file.answer_to(2) is None
    assert call_file.answer_to(1) == b"x" * 100_000
    assert call_file.answer_to(1) is None


def test_a_half_written_answer_is_not_read() -> None:
    call_file = CallFile()
    call_file.ask(1, b"question")
    call_file.answer(1, b"an answer")
    call_file.ask(2, b"another")
    os.pwrite(call_file.descriptor, b"half an ans", 16)  # as if a process had died while it wrote
    assert call_file.answer_to(2) is None
    call_file.close()
    call_file.close()
