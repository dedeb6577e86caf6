"""What was computed is written wherever it can be written."""

import json
import logging
import re
from pathlib import Path

import pytest

from reagent.cli.outputs import write_outputs
from reagent.errors import FileError


class Result:
    def to_json(self) -> str:
        return '{"schema": "a test"}'

    def save(self, path: str | Path) -> Path:
        if "full" in str(path):
            raise FileError(f"cannot write {str(path)!r}: no space left on device")
        Path(path).write_text(self.to_json())
        return Path(path)


def fail() -> None:
    raise TypeError("of a view")


def test_a_failing_view_does_not_prevent_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written: list[str] = []
    with pytest.raises(TypeError, match="of a view"):
        write_outputs(Result(), str(tmp_path / "a.json"), fail, lambda: written.append("html"))
    assert written == ["html"]
    assert (tmp_path / "a.json").exists()
    assert not caplog.records  # the result is in its file


@pytest.mark.parametrize("target", [None, "full.json"])
def test_an_unsaved_result_is_kept(
    target: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with caplog.at_level(logging.WARNING), pytest.raises((TypeError, FileError)):
        write_outputs(Result(), target, *([] if target else [fail]))
    (kept,) = re.findall(r"kept in (\S+):", caplog.text)
    assert json.loads(Path(kept).read_text()) == {"schema": "a test"}
