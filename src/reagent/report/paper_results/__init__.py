"""The numbers of the paper: Zhao and Shan, "ReAGent: A Model-agnostic Feature Attribution Method for Generative
Language Models", arXiv 2402.00794 (2024).

full_results.csv      log ratios to random by model, method, dataset and metric
replacers.csv         steps and log ratios by model and replacer
hyperparameters.csv   log ratios by hyperparameters
rationales.csv        Ante and No.D by method

Two rows of the paper's hyperparameter table have the same setting; both are kept. The paper's averages do not all
follow from its full results, so they are left out.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

SOURCE = "Zhao and Shan 2024, arXiv 2402.00794"
CAUTION = (
    f"Paper: {SOURCE}. Its public code omits the outer square root of the Hellinger distance and makes one draw per "
    "case. Compare signs and orders rather than sizes."
)

# The paper's name by the last part of a hub id, in the order of the paper.
MODELS = {
    "gpt2-medium": "GPT2-354M",
    "gpt2-xl": "GPT2-1.5B",
    "gpt-j-6b": "GPT-J-6B",
    "opt-350m": "OPT-350M",
    "opt-1.3b": "OPT-1.3B",
    "opt-6.7b": "OPT-6.7B",
    "opt-6.7b-erebus": "OPT-6.7B",  # a footnote of the paper names this one
}


class PaperLogRatio(NamedTuple):
    """One number of the full results; significant means p ≤ .05 in the Wilcoxon test."""

    value: float
    significant: bool


class PaperReplacer(NamedTuple):
    """One row of the table of replacers; the last two numbers are log ratios to random."""

    steps: float
    steps_sd: float
    soft_ns: float
    soft_nc: float


def paper_model(model: str) -> str | None:
    """The paper's name of a model, or None if the paper does not have it.

    >>> paper_model("openai-community/gpt2-xl"), paper_model("smollm2")
    ('GPT2-1.5B', None)
    """
    return MODELS.get(model.rstrip("/").rpartition("/")[2].lower())


@cache
def load_full_results() -> dict[tuple[str, str, str, str], PaperLogRatio]:
    """By model (the paper's name), method, dataset and metric."""
    return {
        (row["model"], row["method"], row["dataset"], row["metric"]): PaperLogRatio(
            float(row["log_ratio"]), row["significant"] == "true"
        )
        for row in _read_rows("full_results.csv")
    }


@cache
def load_replacers() -> dict[tuple[str, str], PaperReplacer]:
    """By model and replacer."""
    names = ("steps", "steps_std", "soft_ns", "soft_nc")
    return {
        (row["model"], row["replacer"]): PaperReplacer(*(float(row[name]) for name in names))
        for row in _read_rows("replacers.csv")
    }


@cache
def load_rationales() -> dict[tuple[str, str], dict[str, float]]:
    """Ante and No.D at the lengths of the greedy search, by model and method."""
    return {
        (row["model"], row["method"]): {name: float(row[name]) for name in ("ante", "no_d")}
        for row in _read_rows("rationales.csv")
    }


@cache
def load_hyperparameters() -> dict[tuple[str, float, int, int], list[dict[str, float]]]:
    """Soft-NS and Soft-NC on LongRA by model, ratio, maximum number of steps, and runs."""
    results: dict[tuple[str, float, int, int], list[dict[str, float]]] = {}
    for row in _read_rows("hyperparameters.csv"):
        key = (row["model"], float(row["ratio"]), int(row["max_steps"]), int(row["runs"]))
        results.setdefault(key, []).append({name: float(row[name]) for name in ("soft_ns", "soft_nc")})
    return results


def _read_rows(name: str) -> list[dict[str, str]]:
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
