"""Planted numbers must give the right tables."""

import math
from dataclasses import replace

import pytest

from reagent.bench.records import Cell
from reagent.report.analysis import (
    RATIONALES,
    REPLACEMENT,
    SOFT,
    EntryResult,
    MetricFamily,
    compare_with_random,
    preferred_measures,
    value_records,
)
from reagent.report.build import build_report
from reagent.report.contents import Missing, Table
from reagent.report.load import Run, load_run, without_curve_points
from reagent.report.tables.ablations import ablation_tables
from reagent.report.tables.cost import cost_table
from reagent.report.tables.leaderboard import leaderboard_table, same_examples_table
from reagent.report.tables.pairwise import pairwise_table, run_pairwise_tests
from reagent.report.tables.rationales import rationale_tables
from reagent.report.tables.results import average_tables, full_table, lds_table, paper_table
from reagent.report.tables.sharpness import sharpness_table
from report.runs import PROMPT, ListRecords, cell, make_explanation, result, several

DOUBLE = [{"soft_ns": (2 * v, v), "soft_nc": (v, v)} for v in (0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17)]
EQUAL = [{"soft_ns": (0.1 + d, 0.1), "soft_nc": (0.2, 0.1)} for d in (0.02, -0.02) * 4]


def numbers(cells: list[Cell]) -> tuple[Run, list[EntryResult]]:
    run = load_run(ListRecords(cells))
    return run, compare_with_random(run)


def pairwise(cells: list[Cell], family: MetricFamily) -> Table | Missing:
    run, results = numbers(cells)
    return pairwise_table(run, run_pairwise_tests(run, results), family)


def texts(table: Table | Missing) -> list[list[str]]:
    assert isinstance(table, Table), table
    return [[entry.text for entry in row] for row in table.rows]


def bold(table: Table | Missing) -> list[str]:
    assert isinstance(table, Table), table
    return [entry.text for row in table.rows for entry in row if entry.bold]


def study() -> list[Cell]:
    return [*several(8, DOUBLE, method="reagent"), *several(8, EQUAL, method="lime")]


def test_a_method_that_doubles_random_has_the_logarithm_of_two() -> None:
    table = full_table(*numbers(study()), SOFT)
    doubled, equal = [f"{math.log(2):.3f}", "[0.693, 0.693]"], ["0.000*", "[0.000, 0.000]"]
    reagent, lime = texts(table)
    assert reagent == ["smollm2", "reagent", *doubled, *equal]
    assert lime[:3] + lime[4:] == ["smollm2", "lime", equal[0], *doubled]
    low, high = map(float, lime[3].strip("[]").split(","))  # as good as random on average, not on each example
    assert low < 0 < high


def test_what_is_significant_only_before_the_correction_has_a_mark() -> None:
    given = [{"soft_ns": (0.2 + 0.01 * i, 0.1)} for i in range(6)]  # p = 2 / 2⁶, and three tests
    cells = [cell for method in ("reagent", "lime", "occlusion") for cell in several(6, given, method=method)]
    table = full_table(*numbers(cells), SOFT)
    assert [row[2][-1] for row in texts(table)] == ["°"] * 3
    assert any(note.startswith("°") for note in table.notes)  # type: ignore[union-attr]


def test_the_asterisk_is_the_wilcoxon_test() -> None:
    run, results = numbers(study())
    p = {(f.label, f.comparison.metric): f.comparison.wilcoxon.p for f in results}
    assert p["reagent", "soft_ns"] == pytest.approx(2 / 2**8)
    assert p["reagent", "soft_nc"] == 1
    assert p["lime", "soft_ns"] > 0.05
    record = next(r for r in full_table(run, results, SOFT).records if r["p"] == p["reagent", "soft_ns"])  # type: ignore[union-attr]
    assert record["adjusted_p"] == pytest.approx(4 / 2**8)  # Holm: two tests of Soft-NS, one per method
    assert record["log_ratio_low"] == pytest.approx(math.log(2))
    assert record["significant"]


def test_the_best_average_of_a_column_is_bold_also_where_lower_is_better() -> None:
    over_models, _ = average_tables(*numbers(study()), SOFT)
    assert bold(over_models) == ["0.693", "0.693"]
    low, high = ({"sufficiency": (0.05, 0.1)}, {"sufficiency": (0.2, 0.1)})
    cells = [*several(3, [low] * 3, method="reagent"), *several(3, [high] * 3, method="lime")]
    run, results = numbers(cells)
    table, _ = average_tables(run, results, REPLACEMENT)
    assert bold(table) == ["-0.693"]
    assert any("lower is better" in note for note in table.notes)


def test_averages_over_models_and_tasks_are_means_of_log_ratios() -> None:
    cells = []
    for model, dataset, times in (("a", "longra", 2), ("a", "wikibio", 4), ("b", "longra", 8), ("b", "wikibio", 16)):
        for method, more in (("reagent", 1), ("lime", 0.5)):
            level = "token" if dataset == "longra" else "sequence"
            given = [{"soft_ns": (0.01 * times * more, 0.01)}] * 3
            cells += several(3, given, model=model, dataset=dataset, level=level, method=method)
    by_task, by_model = average_tables(*numbers(cells), SOFT)
    two = math.log(2)
    assert texts(by_task)[0] == ["reagent", f"{2 * two:.3f}", f"{3 * two:.3f}"]
    assert texts(by_model)[0] == ["reagent", f"{1.5 * two:.3f}", f"{3.5 * two:.3f}"]
    assert [column.name for column in by_task.columns] == ["method", "longra", "wikibio"]
    assert len(bold(by_task)) == 2


def test_what_is_missing_somewhere_is_marked_and_never_best() -> None:
    good, poor = {"soft_ns": (0.9, 0.1)}, {"soft_ns": (0.2, 0.1)}
    cells = [*several(4, [poor] * 4, method="lime"), *several(3, [good] * 3, method="reagent")]
    cells.append(cell(example=3, method="reagent", error="out of memory"))
    run, results = numbers(cells)
    over_models, _ = average_tables(run, results, SOFT)
    assert bold(over_models) == []
    assert texts(over_models)[0][1].endswith("†")
    assert texts(full_table(run, results, SOFT))[0][2].endswith("†")


def test_seeds_are_averaged_and_are_not_cases() -> None:
    cells = [
        replace(c, seed=seed)
        for seed, value in enumerate((0.1, 0.3))
        for c in several(4, [{"soft_ns": (value, 0.1)}] * 4)
    ]
    _, results = numbers(cells)
    assert [(f.comparison.cases, f.seeds) for f in results] == [(4, 2)]
    assert results[0].log_ratio == pytest.approx(math.log(2))


def test_one_example_has_no_interval() -> None:
    _, (finding,) = numbers([cell({"soft_ns": (0.2, 0.1)})])
    assert finding.comparison.log_ratio == (pytest.approx(math.log(2)), None, None)


def test_the_order_of_the_records_changes_nothing() -> None:
    cells = study()
    first, again = (full_table(*numbers(some), SOFT) for some in (cells, cells[::-1]))
    assert isinstance(first, Table)
    assert first == again


def test_a_ratio_without_a_logarithm_has_a_note() -> None:
    run, results = numbers(several(3, [{"soft_ns": (0.0, 0.1)}] * 3))
    table = full_table(run, results, SOFT)
    assert texts(table)[0][2].startswith("–")
    assert any("undefined" in note for note in table.notes)  # type: ignore[union-attr]


def test_missing_metrics_are_named() -> None:
    run, results = numbers([cell({"ante": (1.0, 0.3)})])
    missing = full_table(run, results, SOFT)
    assert isinstance(missing, Missing)
    assert "Soft-NS" in missing.reason
    assert list(average_tables(run, results, SOFT)) == []
    assert isinstance(lds_table(run, results), Missing)


def test_correlations_have_means_and_no_ratios() -> None:
    values = [{"lds": (v, 0.0)} for v in (0.2, 0.4, -0.3)]
    table = lds_table(*numbers(several(3, values)))
    assert texts(table)[0][2].startswith("0.100")


def test_tables_show_the_usual_measures_and_data_files_have_all() -> None:
    extra = [
        result("lds", 0.9, 0.0, "spearman_delete_50"),
        result("lds", 0.8, 0.0, "pearson"),
        result("ante", 0.0, 0.1, "all"),
        result("comprehensiveness", 3.0, 1.0, "nats_delete"),
        result("comprehensiveness", 2.0, 1.0, "nats"),
    ]
    usual = {"lds": (0.2, 0.0), "ante": (1.0, 0.3), "comprehensiveness": (0.5, 0.25)}
    cells = []
    for plain in several(3, [usual] * 3):
        assert plain.evaluation is not None
        cells.append(replace(plain, evaluation=replace(plain.evaluation, results=(*extra, *plain.evaluation.results))))
    run, results = numbers(cells)
    table = lds_table(run, results)
    assert texts(table)[0][2].startswith("0.200")
    assert {r["measure"] for r in table.records} == {"spearman", "pearson", "spearman_delete_50"}  # type: ignore[union-attr]
    assert preferred_measures(results) == {"comprehensiveness": "hellinger", "lds": "spearman", "ante": "found"}
    assert {(r["metric"], r["measure"]) for r in value_records(run)} == {
        *((r.metric, r.measure) for r in extra),
        ("lds", "spearman"),
        ("ante", "found"),
        ("comprehensiveness", "hellinger"),
    }


# --- the paper ---


def test_the_numbers_of_the_paper_are_next_to_ours() -> None:
    model = "openai-community/gpt2-medium"
    entries = {"reagent": {"settings": {"preset": "paper"}}, "attention_last": {}, "shapley": {}}
    cells = [c for method, about in entries.items() for c in several(8, DOUBLE, model=model, method=method, **about)]
    table = paper_table(*numbers(cells))
    assert texts(table) == [
        ["gpt2-medium (GPT2-354M)", "reagent", "0.693", "2.090", "0.000*", "4.009"],
        ["gpt2-medium (GPT2-354M)", "attention_last", "0.693", "-0.098*", "0.000*", "-0.281*"],
    ]
    assert "2402.00794" in table.caption  # type: ignore[union-attr]


def test_every_mark_of_a_table_is_explained_next_to_it() -> None:
    model = "openai-community/gpt2-medium"
    cells = [*several(8, DOUBLE, model=model, settings={"preset": "paper"}), *several(8, EQUAL, method="lime")]
    cells += [*several(6, EQUAL[:6], model=model, method="attention_last"), *several(8, DOUBLE, method="reagent")]
    run, results = numbers(cells)
    report = build_report(ListRecords(cells), run, results)
    marks = {table.id: _marks(table) for table in report.tables}
    assert "†" in marks["paper_comparison"]
    assert "*" in marks["full_soft"]
    for table in report.tables:
        for mark in _marks(table):
            assert any(note.startswith(mark) for note in table.notes), f"{mark} in {table.id}"


def _marks(table: Table) -> set[str]:
    cells = [
        entry.text for row in table.rows for entry, column in zip(row, table.columns, strict=True) if column.is_number
    ]
    return {mark for text in cells for mark in "*°†" if mark in text}


def test_another_model_or_preset_has_no_published_number() -> None:
    assert isinstance(paper_table(*numbers(study())), Missing)
    fast = several(3, DOUBLE[:3], model="gpt2-xl", settings={"preset": "fast"})
    assert isinstance(paper_table(*numbers(fast)), Missing)


def test_all_published_numbers_are_there() -> None:
    from reagent.report.paper_results import (
        MODELS,
        load_full_results,
        load_hyperparameters,
        load_rationales,
        load_replacers,
    )

    assert len(load_full_results()) == 6 * 8 * 3 * 2
    assert {key[0] for key in load_full_results()} == set(MODELS.values()) == {key[0] for key in load_replacers()}
    assert load_full_results()["OPT-6.7B", "reagent", "wikibio", "soft_nc"] == (3.13, True)
    assert not load_full_results()["GPT-J-6B", "attention", "longra", "soft_nc"].significant
    assert len(load_replacers()) == 18
    assert sum(map(len, load_hyperparameters().values())) == 7
    assert len(load_rationales()) == 8


# --- rationales ---


def greedy(length: int, exhaustive: bool = False) -> dict[str, object]:
    return {
        "method": "greedy",
        "label": "exhaustive" if exhaustive else "greedy",
        "settings": {"by": "replacement", "exhaustive": exhaustive},
        "steps": length,
        "marked": True,
    }


MARKS = {"ante": (1.0, 0.2), "no_d": (1.0, 0.5)}


def test_rationales_are_as_long_as_greedys() -> None:
    """With one unit only "Japan" is in it; the second would be the first word of the prompt."""
    cells = [
        cell(MARKS, marked=True),
        cell(MARKS, marked=True, method="lime", top=" piano"),
        cell(MARKS, **greedy(1)),  # type: ignore[arg-type]
    ]
    marked, _ = rationale_tables(*numbers(cells))
    rows = {row[2]: row[3:7] for row in texts(marked)}
    units = len(PROMPT.split())
    chance = f"{1 / units:.3f}"
    assert rows["reagent"] == ["1.000", chance, "1.000", f"{1 - 7 / units:.3f}"]
    assert rows["lime"][0] == "0.000"
    assert rows["lime"][2] == "0.000"  # "piano" is in the distractor
    assert bold(marked).count("1.000") >= 4


def test_without_a_greedy_search_its_lengths_are_left_out() -> None:
    marked, lengths = rationale_tables(*numbers([cell(MARKS, marked=True)]))
    assert isinstance(marked, Table)
    assert {column.group for column in marked.columns} == {"", "5 units"}
    assert any("no greedy search" in note for note in marked.notes)
    assert isinstance(lengths, Missing)


def test_length_over_the_smallest_there_is() -> None:
    cells = []
    for example, (length, smallest) in enumerate([(3, 2), (2, 2), (4, 1)]):
        cells += [cell(MARKS, example=example, **greedy(length))]  # type: ignore[arg-type]
        cells += [cell(MARKS, example=example, **greedy(smallest, True))]  # type: ignore[arg-type]
    cells.append(cell(MARKS, example=3, **greedy(9)))  # type: ignore[arg-type]
    cells.append(cell(example=3, method="greedy", label="exhaustive", error="too many sets"))
    _, lengths = rationale_tables(*numbers(cells))
    row = texts(lengths)[0]
    assert row[2:7] == ["greedy", "3", "3", "1.7", f"{(1.5 + 1 + 4) / 3:.3f}"]
    assert "1 exhaustive searches failed" in lengths.notes[0]  # type: ignore[union-attr]


# --- ablations ---


def test_replacers_have_steps_their_spread_and_log_ratios() -> None:
    settings = {"preset": "paper", "ratio": 0.3, "max_steps": 5000, "runs": 3, "keep": 0.3, "top_k": 3}
    cells = []
    for replacer, runs, times in (("roberta", (100, 200, 300), 2), ("random", (5000, 4000, 3000), 4)):
        given = [{"soft_ns": (0.1, 0.1), "soft_nc": (0.1 * times, 0.1)}] * 3
        stopped = "maximum" if replacer == "random" else "condition"
        about = {"settings": settings, "replacer": replacer, "runs": runs, "stopped": stopped, "label": replacer}
        cells += several(3, given, model="gpt2-xl", **about)
    replaced, settings_table = ablation_tables(*numbers(cells))
    rows = {row[3]: row[4:] for row in texts(replaced)}
    assert rows["roberta"] == ["200", "86.6", "1.00", "0.000*", "0.693*", "239", "701", "1.215", "5.105"]
    assert rows["random"][:3] == ["4,000", "866", "0.00"]
    assert "200" in bold(replaced)
    assert "1.386*" in bold(replaced)
    assert isinstance(settings_table, Missing)


def test_hyperparameters_are_read_from_the_records() -> None:
    cells = []
    for ratio, value in ((0.1, 0.2), (0.3, 0.4)):
        settings = {"preset": "paper", "ratio": ratio, "max_steps": 3000, "runs": 3, "keep": 0.3, "top_k": 3}
        given = [{"soft_ns": (value, 0.1), "soft_nc": (value, 0.1)}] * 2
        about = {"settings": settings, "label": f"r={ratio}", "replacer": "roberta", "runs": (10, 20, 30)}
        cells += several(2, given, model="gpt2-medium", **about)
    _, table = ablation_tables(*numbers(cells))
    assert [row[4:9] for row in texts(table)] == [["0.1", "3000", "3", "0.3", "3"], ["0.3", "3000", "3", "0.3", "3"]]
    assert texts(table)[1][-2:] == ["1.752 or 2.406", "2.170 or 1.481"]
    assert bold(table) == ["1.386*", "1.386*"]


def test_points_of_a_curve_are_not_entries() -> None:
    cells = []
    for steps in (50, 100, 150):
        settings = {"preset": "paper", "ratio": 0.3, "max_steps": steps, "runs": 1, "stop": False}
        cells += several(2, [{"soft_ns": (0.2, 0.1)}] * 2, label=f"roberta {steps}", settings=settings)
    run = without_curve_points(load_run(ListRecords(cells)))
    assert run.labels == ["roberta 150"]


def test_cost_is_the_mean_over_cells() -> None:
    cells = [cell({}, example=i, why=make_explanation(passes=passes)) for i, passes in enumerate((100, 300))]
    assert texts(cost_table(load_run(ListRecords(cells)))) == [
        ["longra", "reagent", "2", "200", "100", "300", "0.50", "–", "2 condition"]
    ]


def test_cost_is_listed_by_task_with_the_stop_reasons() -> None:
    ends = ["settled", "unsettled", "settled"]
    cells = [cell({}, example=i, why=make_explanation(stopped=end)) for i, end in enumerate(ends)]
    cells += [
        cell({}, dataset="tellmewhy", example=0, method="lime", why=make_explanation(passes=258, stopped="fixed"))
    ]
    rows = [[row[0], row[1], row[3], row[-1]] for row in texts(cost_table(load_run(ListRecords(cells))))]
    assert rows == [["longra", "reagent", "100", "2 settled, 1 unsettled"], ["tellmewhy", "lime", "258", ""]]


def test_cost_has_the_error_of_the_largest_effect() -> None:
    why = make_explanation()
    cells = []
    for i, share in enumerate((0.1, 0.2, 0.9)):
        with_errors = replace(
            why, effects=why.scores, stderr=tuple(tuple(share * x for x in row) for row in why.scores)
        )
        cells.append(cell({}, example=i, why=with_errors))
    assert texts(cost_table(load_run(ListRecords(cells))))[0][-2] == "20%"


def test_pairwise_tests_use_the_examples_that_both_have() -> None:
    more = [{"sufficiency": (0.1 + 0.01 * i, 0.3)} for i in range(8)]
    less = [{"sufficiency": (0.3 + 0.01 * i, 0.3)} for i in range(6)]
    cells = [*several(8, more, method="reagent"), *several(6, less, method="lime")]
    table = pairwise(cells, REPLACEMENT)
    # Less change is better here, so the sign of the difference is reversed: above 0 the first is better.
    assert texts(table) == [["smollm2", "lime", "0.200", "[0.200, 0.200]"]]
    (record,) = table.records  # type: ignore[union-attr]
    assert record["cases"] == 6
    assert record["better"] == 1
    assert record["adjusted_p"] == pytest.approx(2 / 2**6)


def test_a_pairwise_test_that_is_not_significant_has_an_asterisk_and_p_values_are_corrected() -> None:
    cells = [*study(), *several(8, [{"soft_ns": (0.0, 0.1)}] * 8, method="attention")]
    table = pairwise(cells, SOFT)
    assert isinstance(table, Table)
    by = {(record["against"], record["metric"]): record for record in table.records}
    assert by["lime", "soft_ns"]["adjusted_p"] == pytest.approx(4 / 2**8)  # two tests of Soft-NS
    assert by["lime", "soft_nc"]["difference"] == pytest.approx(-0.065)
    assert ("attention", "soft_nc") not in by
    assert texts(table)[0][1] == "attention"
    assert not table.notes  # all significant
    equal = [*study(), *several(8, DOUBLE[::-1], method="attention")]
    table = pairwise(equal, SOFT)
    assert any("0.000*" in row for row in texts(table))
    assert isinstance(table, Table)
    assert "not significant" in table.notes[0]


def test_pairwise_tests_are_also_corrected_over_all_metrics() -> None:
    """With six examples p is 2 / 2⁶: enough for one test, and not for two of other metrics."""
    given = [{"soft_ns": (0.2 + 0.01 * i, 0.1), "lds": (0.5, 0.1)} for i in range(6)]
    less = [{"soft_ns": (0.1, 0.1), "lds": (0.5, 0.1)} for _ in range(6)]
    table = pairwise([*several(6, given, method="reagent"), *several(6, less, method="lime")], SOFT)
    assert isinstance(table, Table)
    (record,) = table.records
    assert record["adjusted_p"] == pytest.approx(2 / 2**6)
    assert record["adjusted_p_together"] == pytest.approx(4 / 2**6)
    assert texts(table)[0][2].endswith("°")
    assert [note for note in table.notes if "all 2 pairwise tests" in note] == list(table.notes)


def test_rationales_have_pairwise_tests_too() -> None:
    cells = [
        *several(8, [{"no_d": (1.0, 0.1)}] * 8, method="reagent"),
        *several(8, [{"no_d": (float(i < 2), 0.1)} for i in range(8)], method="lime"),
    ]
    assert texts(pairwise(cells, RATIONALES))[0][:3] == ["smollm2", "lime", "0.750"]


def test_the_leaderboard_leaves_out_entries_with_fewer_examples() -> None:
    def entry(method: str, n: int, soft_ns: float, sufficiency: float) -> list[Cell]:
        return several(n, [{"soft_ns": (soft_ns, 0.1), "sufficiency": (sufficiency, 0.1)}] * n, method=method)

    cells = [*entry("reagent", 3, 0.2, 0.1), *entry("lime", 3, 0.1, 0.2), *entry("occlusion", 3, 0.1, 0.1)]
    table = leaderboard_table(*numbers([*cells, *entry("greedy", 2, 0.9, 0.01)]))
    assert isinstance(table, Table)
    heads = [f"{column.group} {column.name}".strip() for column in table.columns]
    assert heads == ["method", "all of 2", "Soft-NS of 1", "Sufficiency of 1"]
    # Two that are equally good are both the best.
    assert sorted(texts(table)) == [["lime", "0", "", ""], ["occlusion", "1", "", "1"], ["reagent", "2", "1", "1"]]
    assert not table.notes
    elsewhere = several(2, [{"soft_ns": (v, 0.1)} for v in (0.1, 0.2)], method="lime", dataset="wikibio")
    table = leaderboard_table(
        *numbers([*cells, *elsewhere, *several(2, [{"soft_ns": (0.3, 0.1)}] * 2, method="greedy", dataset="wikibio")])
    )
    assert isinstance(table, Table)
    totals = {row[0]: row[1] for row in texts(table)}
    assert totals == {"reagent": "2†", "occlusion": "1†", "lime": "0", "greedy": "1†"}
    assert {"label": "greedy", "metric": "sufficiency", "best": 0, "of": 0} in table.records
    assert isinstance(leaderboard_table(*numbers(several(3, DOUBLE[:3]))), Missing)
    # Two that lack one example each have the same number of examples, and not the same examples.
    apart = [*several(8, DOUBLE, method="reagent")[1:], *several(8, EQUAL, method="lime")[:-1]]
    assert isinstance(leaderboard_table(*numbers(apart)), Missing)
    assert isinstance(same_examples_table(*numbers(apart)), Missing)


def test_all_entries_on_the_examples_of_the_one_with_fewer() -> None:
    cells = [
        *several(8, DOUBLE, method="reagent"),
        *several(8, EQUAL, method="lime"),
        *several(2, [{"soft_ns": (0.4, 0.1), "soft_nc": (0.1, 0.1)}] * 2, method="greedy", passes=900),
        *several(1, DOUBLE[:1], method="occlusion"),
    ]
    table = same_examples_table(*numbers(cells))
    assert isinstance(table, Table)
    heads = ["model", "dataset", "examples of", "method", "examples", "forward passes"]
    assert [column.name for column in table.columns][:6] == heads
    assert {row[3]: row[4:7] for row in texts(table)} == {
        "reagent": ["2", "100", "0.693"],
        "lime": ["2", "100", "0.000"],
        "greedy": ["2", "900", "1.386"],
    }
    assert bold(table) == ["0.693", "1.386"]  # Soft-NC of LIME, Soft-NS of the greedy search
    assert isinstance(same_examples_table(*numbers(study())), Missing)


def test_the_first_entry_of_the_suite_is_the_reference() -> None:
    run = load_run(ListRecords(study(), {"suite": "planted", "labels": ["lime", "reagent"]}))
    assert texts(pairwise_table(run, run_pairwise_tests(run, compare_with_random(run)), SOFT))[0][1] == "reagent"
    assert isinstance(pairwise(several(3, DOUBLE[:3]), SOFT), Missing)


def test_a_metric_that_follows_sharpness_correlates_with_it() -> None:
    cells = []
    for i, method in enumerate(("reagent", "lime", "attention", "occlusion", "random")):
        why = make_explanation(method={"id": method})
        peak = 0.9 - 0.15 * i  # flatter and flatter
        rest = (1 - peak) / (len(why.input) - 1)
        why = replace(why, scores=((peak, *[rest] * (len(why.input) - 1)),))
        given = {
            "soft_nc": (0.5 - 0.05 * i, 0.1),
            "pi_soft_nc": (0.3 + 0.01 * i, 0.1),
            "sufficiency": (0.1 + 0.1 * i, 1),
        }
        cells += [cell(given, method=method, example=n, why=why) for n in range(3)]
    table = sharpness_table(*numbers(cells))
    assert isinstance(table, Table)
    assert [row[0] for row in texts(table)] == [
        "reagent", "lime", "attention", "occlusion", "random", "correlation with sharpness",
    ]  # fmt: skip
    assert texts(table)[-1][2:] == ["1.00", "-1.00", "1.00"]  # of sufficiency, lower is better
    assert [row[1] for row in texts(table)][::4] == ["9%", "72%"]
    assert isinstance(sharpness_table(*numbers(study())), Missing)
