"""Sheets: a question and its answer, whole or not there."""

from __future__ import annotations

import os

from headrace.pool.executors.processes.calls import Sheet


def test_an_answer_belongs_to_its_question_and_is_there_once() -> None:
    sheet = Sheet()
    sheet.ask(1, b"how many?")
    assert sheet.question() == (1, b"how many?")
    assert sheet.answer_to(1) is None
    sheet.answer(1, b"x" * 100_000)
    assert sheet.answer_to(2) is None
    assert sheet.answer_to(1) == b"x" * 100_000
    assert sheet.answer_to(1) is None


def test_a_text_that_was_not_finished_is_none() -> None:
    sheet = Sheet()
    sheet.ask(1, b"question")
    sheet.answer(1, b"an answer")
    sheet.ask(2, b"another")
    os.pwrite(sheet._file, b"half an ans", 16)  # as of a process that was lost while it wrote
    assert sheet.answer_to(2) is None
    sheet.close()
    sheet.close()
