"""The numbers of docs/study/README.md follow from the records of the study."""

import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from reagent.bench.store import Store
from reagent.report.analysis import LDS, EntryResult, compare_with_random, index_results
from reagent.report.contents import Missing, Table
from reagent.report.load import load_run, without_curve_points
from reagent.report.tables.base import format_number
from reagent.report.tables.leaderboard import leaderboard_table, same_examples_table
from reagent.report.tables.pairwise import PairwiseTest, run_pairwise_tests
from reagent.report.tables.sharpness import sharpness_table

STUDY = Path(__file__).parents[1] / "docs" / "study"
PAGE = (STUDY / "README.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())


class Records:
    """One run of the study, and the statistics of it that the page quotes."""

    def __init__(self, name: str) -> None:
        with Store.open(STUDY / f"{name}.sqlite") as store:
            run = load_run(store)
            self.answers = {cell.explanation.completion for cell in store.cells() if cell.explanation}
        self.run = without_curve_points(run)
        self.all_results = compare_with_random(run)
        labels = set(self.run.labels)
        self.results = [result for result in self.all_results if result.label in labels]

    @cached_property
    def index(self) -> dict[tuple[str, str, str], EntryResult]:
        return {key[1:]: result for key, result in index_results(self.all_results).items()}

    def value(self, dataset: str, label: str, metric: str) -> float | None:
        """The log ratio to random; the mean for LDS."""
        result = self.index.get((dataset, label, metric))
        if result is None:
            return None
        return result.comparison.mean.value if metric in LDS.metrics else result.log_ratio

    def count(self, dataset: str, label: str, metric: str) -> float:
        """Of a metric that is 0 or 1 for each example: the number of ones."""
        comparison = self.index[dataset, label, metric].comparison
        return comparison.cases * (comparison.mean.value or 0.0)

    def passes(self, label: str) -> float:
        return mean(cell.passes for cell in self.run.cells if cell.label == label)

    @cached_property
    def tests(self) -> dict[tuple[str, str, str], PairwiseTest]:
        return {key[1:]: test for key, test in run_pairwise_tests(self.run, self.results).items()}

    def table(self, build: Callable[..., Table | Missing]) -> Sequence[Any]:
        table = build(self.run, self.results)
        assert isinstance(table, Table)
        return table.records

    def on_examples_of(self, owner: str, label: str, column: str) -> float:
        return next(
            float(record[column])
            for record in self.table(same_examples_table)
            if (record["examples_of"], record["label"]) == (owner, label)
        )

    def best(self, label: str) -> int:
        return sum(record["best"] for record in self.table(leaderboard_table) if record["label"] == label)

    def sharpness(self, metric: str) -> float:
        last = [record for record in self.table(sharpness_table) if record["metric"] == metric][-1]
        return float(last["log_ratio"])


records = cache(Records)
METRICS = ("soft_ns", "soft_nc", "pi_soft_ns", "pi_soft_nc", "comprehensiveness", "sufficiency", "lds")
TASKS = (
    ("standard", "longra"),
    ("standard", "tellmewhy"),
    ("standard", "wikibio"),
    ("wikibio", "wikibio"),
    ("gemma", "longra"),
)


def rows_below(heading: str) -> dict[str, list[str]]:
    """The rows of a table of the page, by their first cells."""
    lines = PAGE[PAGE.index(heading) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: rest for first, *rest in cells}


def printed(value: float | None) -> str:
    return "" if value is None else format_number(value, 2)


def test_the_table_of_longra_follows_from_the_records() -> None:
    rows, standard = rows_below("| method | Soft-NS"), records("standard")
    assert set(rows) == set(standard.run.labels)
    for label, cells in rows.items():
        assert cells == [printed(standard.value("longra", label, metric)) for metric in METRICS], label


def test_the_table_of_lds_follows_from_the_records() -> None:
    rows = rows_below("| method | longra")
    assert {"reagent", "reagent (paper)", "occlusion", "random"} < set(rows)
    for label, cells in rows.items():
        assert cells == [printed(records(name).value(dataset, label, "lds")) for name, dataset in TASKS], label


Numbers = Sequence[float | None]


def pair(name: str, *key: str) -> Numbers:
    """Difference, its interval and the three p-values of a pairwise test: dataset, other entry, metric."""
    dataset, other, metric = key
    test = records(name).tests[dataset, other, metric]
    comparison = test.comparison
    return [*comparison.difference, comparison.wilcoxon.p, comparison.adjusted_p, test.adjusted_p_together]


def shared(owner: str, *columns: tuple[str, str]) -> Numbers:
    return [records("standard").on_examples_of(owner, label, column) for label, column in columns]


def budget(*keys: tuple[str, str]) -> Numbers:
    return [records("budgets").value("longra", label, metric) for label, metric in keys]


def choice(label: str) -> float | None:
    return records("choices").value("longra", label, "lds")


# A passage of the page, and the numbers in it.
CLAIMS: dict[str, Callable[[], Numbers]] = {
    "small: 0.027, with an interval from 0.011 to 0.044 (p = 0.001 uncorrected, 0.03 corrected, 0.29 if": lambda: pair(
        "standard", "longra", "occlusion", "lds"
    ),
    "all 262 comparisons": lambda: [len(records("standard").tests)],
    "(1.73 and 0.19; `fast` 1.69 and 0.18 on": lambda: shared(
        "greedy",
        ("greedy", "pi_soft_ns"),
        ("greedy", "pi_soft_nc"),
        ("reagent", "pi_soft_ns"),
        ("reagent", "pi_soft_nc"),
    ),
    "LDS only (0.68 against 0.86)": lambda: shared("greedy", ("greedy", "lds"), ("reagent", "lds")),
    "sharpness is 0.67 for Soft-NS and 0.65 for Soft-NC": lambda: [
        records("standard").sharpness(metric) for metric in ("soft_ns", "soft_nc")
    ],
    "no p is below 0.34": lambda: [min(test.comparison.adjusted_p or 0 for test in records("wikibio").tests.values())],
    "(LDS 0.88 and 0.85), before LIME (0.61), attention (0.59) and Shapley values (0.57)": lambda: [
        records("gemma").value("longra", label, "lds")
        for label in ("reagent", "occlusion", "lime", "attention", "shapley")
    ],
    "ahead with p = 0.04 uncorrected and 0.21 corrected": lambda: pair("gemma", "longra", "occlusion", "pi_soft_nc")[
        3:5
    ],
    "LDS (0.86 against 0.33) and sufficiency (−0.30 against −0.09), with a tenth of the passes (121 against 1,269)": (
        lambda: shared(
            "reagent (paper)",
            *(
                (label, column)
                for column in ("lds", "sufficiency", "passes")
                for label in ("reagent", "reagent (paper)")
            ),
        )
    ),
    "(1.18; occlusion 1.19, LIME 1.18, Shapley values 1.13, `fast` 1.12)": lambda: shared(
        "reagent (paper)",
        *((label, "soft_ns") for label in ("reagent (paper)", "occlusion", "lime", "shapley", "reagent")),
    ),
    "in Soft-NC (0.45; `fast` 0.74)": lambda: shared(
        "reagent (paper)", ("reagent (paper)", "soft_nc"), ("reagent", "soft_nc")
    ),
    "sufficiency and LDS (0.77 against 0.43)": lambda: budget(("fast 32", "lds"), ("published 1024", "lds")),
    "LDS 0.85 against 0.18, sufficiency −0.32 against −0.06, Soft-NC 0.94 against 0.81": lambda: budget(
        *((label, metric) for metric in ("lds", "sufficiency", "soft_nc") for label in ("fast 128", "published 128"))
    ),
    "LDS is 0.77 with 32 probes, 0.82 with 64, 0.85 with 128 and 0.86 with 256 and 512": lambda: [
        *(number for n in (32, 64, 128) for number in (*budget((f"fast {n}", "lds")), n)),
        mean(value or 0 for value in budget(("fast 256", "lds"), ("fast 512", "lds"))),
        256,
        512,
    ],
    "per block 0.85, 5 % (here one or two tokens) 0.84, 10 % 0.83, 20 % 0.76, the published 30 % 0.73": lambda: [
        choice("one token, self"),
        *(number for share in (5, 10, 20, 30) for number in (share, choice(f"{share} %, self"))),
    ],
    "(0.838 against 0.845; p = 0.06 uncorrected)": lambda: [
        choice("adaptive, self"),
        choice("one token, self"),
        pair("choices", "longra", "one token, self", "lds")[3],
    ],
    "an LDS of 0.81 with 128 passes, the default 0.84 with 120": lambda: [
        number
        for label in ("blocks of 10 %", "reagent")
        for number in (records("blocks").value("longra", label, "lds"), records("blocks").passes(label))
    ],
    "has the best in 11, occlusion in 5, Shapley values and LIME in 2 each, the attention of the last layer in 1": (
        lambda: [records("standard").best(label) for label in ("reagent", "occlusion", "shapley", "attention_last")]
    ),
    "in 28 of 40 cases, those of occlusion in 36 (p = 0.02 uncorrected, 0.19 corrected)": lambda: [
        records("standard").count("longra", "reagent", "no_d"),
        40,
        records("standard").count("longra", "occlusion", "no_d"),
        *pair("standard", "longra", "occlusion", "no_d")[3:5],
    ],
}


@pytest.mark.parametrize("passage", CLAIMS)
def test_the_numbers_of_the_page_follow_from_the_records(passage: str) -> None:
    assert passage in TEXT
    quoted = re.findall(r"−?\d+(?:,\d{3})*(?:\.\d+)?", passage)
    values = CLAIMS[passage]()
    assert len(quoted) == len(values)
    for text, value in zip(quoted, values, strict=True):
        number = text.replace("−", "-").replace(",", "")
        digits = len(number.partition(".")[2])
        assert value is not None
        assert float(number) == pytest.approx(value, abs=0.5 * 10**-digits + 1e-9), passage


def test_the_answers_of_the_examples_are_those_of_the_page() -> None:
    assert records("examples").answers == {" Cairo", " Nintendo", " bed"}
    assert all(f'"{answer}"' in TEXT for answer in records("examples").answers)


def test_links_of_the_page_lead_to_files_of_the_repository() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if "://" not in link]
    assert all((STUDY / link).is_file() for link in links)
    figures = {f"figures/{path.name}" for path in (STUDY / "figures").iterdir()}
    assert figures == {link for link in links if link.startswith("figures/")}
