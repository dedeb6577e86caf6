"""The plugin for simonw/llm in examples/llm_plugin, with a model of llm that answers by two words."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

llm = pytest.importorskip("llm")
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "llm_plugin"))


class Shop(llm.Model):  # type: ignore[misc, name-defined]
    model_id = "shop"

    def execute(self, prompt: Any, **_: Any) -> Iterator[str]:
        yield "Money back" if "refund" in prompt.prompt and prompt.system == "Be kind" else "Thank you"


def test_llm_explain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from click.testing import CliRunner
    from llm_explain import explain

    monkeypatch.setattr(llm, "get_model", lambda _: Shop())
    asked = [
        "The lamp is broken, so I want a refund",
        "-m",
        "shop",
        "-s",
        "Be kind",
        "--html",
        str(tmp_path / "why.html"),
    ]
    result = CliRunner().invoke(explain, asked)
    assert result.exit_code == 0, result.output
    assert "Why “Money back”?" in result.output
    assert "⟦refund⟧" in result.output
    assert (tmp_path / "why.html").is_file()
    result = CliRunner().invoke(explain, ["Any text at all", "--score", "txt"])
    assert result.exit_code == 1
    assert "did you mean 'text'" in result.output
