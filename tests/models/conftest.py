"""Fixtures of the tests of models."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """Grows by every INFO message of the library."""
    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, handler = logging.getLogger("reagent"), Collector()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(level)
