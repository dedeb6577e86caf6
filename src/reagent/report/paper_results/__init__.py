"""What the paper printed: its full results, replacers, hyperparameters and rationales, carried over as facts.

The numbers are those of Zhao and Shan, "ReAGent: A Model-agnostic Feature Attribution Method for Generative Language
Models", arXiv 2402.00794 (2024). Two rows of its hyperparameter table have the same setting; both are kept. Its
averages do not all follow from its full results, so averages are not carried over.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

SOURCE = "Zhao and Shan 2024, arXiv 2402.00794"
CAUTION = (
    f"ReagentPaper: {SOURCE}. Its public code leaves the outer root out of the Hellinger distance and makes one draw "
    "for each case, so that signs and orders can be compared rather than sizes."
)

# By the last part of a hub id, in the order of the paper.
MODELS = {
    "gpt2-medium": "GPT2-354M",
    "gpt2-xl": "GPT2-1.5B",
    "gpt-j-6b": "GPT-J-6B",
    "opt-350m": "OPT-350M",
    "opt-1.3b": "OPT-1.3B",
    "opt-6.7b": "OPT-6.7B",
    "opt-6.7b-erebus": "OPT-6.7B",  # which the paper names in a footnote
}


class LogRatio(NamedTuple):
    """One number of the full results; significant where the Wilcoxon test has p ≤ .05."""

    value: float
    significant: bool


class Replaced(NamedTuple):
    """One line of the table of replacers; the last two are log ratios to random."""

    steps: float
    spread: float
    soft_ns: float
    soft_nc: float


def published_name(model: str) -> str | None:
    """What the paper calls a model, if it is one of its six.

    >>> published_name("openai-community/gpt2-xl"), published_name("smollm2")
    ('GPT2-1.5B', None)
    """
    return MODELS.get(model.rstrip("/").rpartition("/")[2].lower())


@cache
def full_results() -> dict[tuple[str, str, str, str], LogRatio]:
    """By model (as the paper calls it), method, dataset and metric."""
    return {
        (row["model"], row["method"], row["dataset"], row["metric"]): LogRatio(
            float(row["log_ratio"]), row["significant"] == "true"
        )
        for row in _rows("full_results.csv")
    }


@cache
def replacers() -> dict[tuple[str, str], Replaced]:
    """By model and replacer."""
    names = ("steps", "steps_std", "soft_ns", "soft_nc")
    return {
        (row["model"], row["replacer"]): Replaced(*(float(row[name]) for name in names))
        for row in _rows("replacers.csv")
    }


@cache
def rationales() -> dict[tuple[str, str], dict[str, float]]:
    """Ante and No.D by model and method, at the lengths of the greedy search."""
    return {
        (row["model"], row["method"]): {name: float(row[name]) for name in ("ante", "no_d")}
        for row in _rows("rationales.csv")
    }


@cache
def hyperparameters() -> dict[tuple[str, float, int, int], list[dict[str, float]]]:
    """Soft-NS and Soft-NC on LongRA by model, ratio, maximum of steps and runs."""
    found: dict[tuple[str, float, int, int], list[dict[str, float]]] = {}
    for row in _rows("hyperparameters.csv"):
        key = (row["model"], float(row["ratio"]), int(row["max_steps"]), int(row["runs"]))
        found.setdefault(key, []).append({name: float(row[name]) for name in ("soft_ns", "soft_nc")})
    return found


def _rows(name: str) -> list[dict[str, str]]:
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
