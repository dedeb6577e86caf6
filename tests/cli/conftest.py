"""The command line, called as a person calls it."""

from pathlib import Path

import pytest

from reagent.cli import main


class Answer:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def call(*words: object) -> Answer:
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Answer(int(stop.value.code or 0), out, err)

    return call


@pytest.fixture
def explain(run, tiny_folder: Path):
    def call(*words: object) -> Answer:
        return run("explain", *words, "--model", tiny_folder)

    return call
