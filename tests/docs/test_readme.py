"""The README is short, and its numbers are those of the measurements that it links to."""

import json
import re
from pathlib import Path
from typing import Any

from reagent.models.bundled import MODELS
from reagent.progress_bars import format_bytes

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def measured(name: str) -> Any:
    return json.loads((ROOT / "docs" / "benchmarks" / f"{name}.json").read_text())


def row(start: str) -> str:
    return next(line for line in README.splitlines() if line.startswith(f"| {start}"))


def numbers(text: str) -> list[float]:
    """The numbers of a row, without those in links."""
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", re.sub(r"\(docs/[^)]*\)", "", text))]


def best(values: dict[str, float], own: str) -> tuple[int, float]:
    """How many other estimators there are, and the best value of one."""
    others = {name: value for name, value in values.items() if name not in (own, "random")}
    return len(others), max(others.values())


def test_the_first_screen_has_one_sentence_one_command_one_picture_and_the_numbers() -> None:
    first = README.split("\n## ")[0]
    assert len(README.splitlines()) <= 120
    assert first.count("**Which parts of my prompt made this language model say that?**") == 1
    assert first.count("    reagent explain ") == first.count("![") == 1
    assert all("](docs/" in line for line in first.splitlines() if line.startswith("| ") and line != "| | | measured |")


def test_repeated_facts() -> None:
    results = measured("repeated")["report, 128 passes"]["repeated"]
    found = {name: round(one["all_in_top"]["mean"] * one["all_in_top"]["count"]) for name, one in results.items()}
    own = results["reagent fast"]
    count, other = best(found, "reagent fast")
    shown = [found["reagent fast"], own["all_in_top"]["count"], count, other, found["occlusion (delete)"]]
    assert numbers(row("Facts")) == [*shown, own["forward_passes"]["mean"]]


def test_exact_shapley_values() -> None:
    results = measured("games")["report"]["word"]["128"]
    count, other = best({name: one["spearman"]["mean"] for name, one in results.items()}, "reagent fast")
    own = results["reagent fast"]
    shown = [round(own["spearman"]["mean"], 2), count, round(other, 2), own["evaluations"]["mean"]]
    assert numbers(row("Exact")) == shown


def test_architectures() -> None:
    rows = measured("models")["architectures"]
    verdicts = [one["checks"]["scores"] if "checks" in one else "not built" for one in rows]
    right, refused = verdicts.count("right"), sum(verdict.startswith("refused") for verdict in verdicts)
    other = len(rows) - right - refused - verdicts.count("not built")
    assert numbers(row("Architectures of `transformers`")) == [
        right, len(rows), refused, verdicts.count("not built"), other,
    ]  # fmt: skip


def test_architectures_of_gguf_files() -> None:
    assert numbers(row("Architectures of GGUF")) == [len(measured("gguf")["quantisations"])]


def test_the_size_of_the_download() -> None:
    assert f"is fetched once ({format_bytes(MODELS['smollm2'].wheel_bytes)})" in README
