"""Build a report: every table and figure that the run has data for, in reading order."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reagent.report.analysis import LDS, RATIO_FAMILIES, RATIONALES, EntryResult
from reagent.report.contents import Column, Figure, Missing, Report, Section, ShadedExample, Table, TableCell
from reagent.report.examples import load_examples
from reagent.report.figures.bars import bar_figures
from reagent.report.figures.convergence import convergence_parts
from reagent.report.figures.cost import cost_figure
from reagent.report.figures.examples import distribution_figure, heat_map, shade_example
from reagent.report.load import Failure, Records, Run, without_curve_points
from reagent.report.tables.ablations import ablation_tables
from reagent.report.tables.cost import cost_table
from reagent.report.tables.leaderboard import leaderboard_table, same_examples_table
from reagent.report.tables.pairwise import pairwise_table, run_pairwise_tests
from reagent.report.tables.rationales import rationale_tables
from reagent.report.tables.results import average_tables, full_table, lds_table, paper_table
from reagent.report.tables.sharpness import sharpness_table
from reagent.views.summary import join_values
from reagent.views.text import shorten

ERROR_LENGTH = 300
_INTRODUCTIONS = {
    "soft": "Each element of an embedding is kept or removed with a probability given by the score of its token "
    "(Soft-NS and Soft-NC, the metrics of the paper). Above 0 is better than random attributions on the same examples. "
    "These metrics favour peaked scores.",
    "pi_soft": "The same metrics, with an equal share selected for every method, so that sharpness has no influence.",
    "replacement": "The most important units are replaced by plausible alternatives (comprehensiveness), or all other "
    "units are (sufficiency, where less change is better).",
    "sharpness": "Soft perturbation favours peaked scores whatever their order, so a lead in these metrics is only "
    "partly due to a better ranking.",
    "leaderboard": "Metrics measure different properties and need not agree. Means over different examples cannot be "
    "compared.",
    "examples": "Each text is shaded by its scores, relative to the largest score of the method.",
    "failures": "These cells have no numbers; the others are unaffected. `bench run --retry-failed` repeats them.",
}
_Part = Table | Figure | ShadedExample | Missing


def build_report(records: Records, run: Run, results: Sequence[EntryResult]) -> Report:
    """The whole report. Parts without data are listed with the reason."""
    sections, missing = [], []
    for id, title, parts in _sections(records, run, results):
        available = tuple(part for part in parts if not isinstance(part, Missing))
        missing += [part for part in parts if isinstance(part, Missing)]
        if run.unfinished:
            available = tuple(_with_note(part, run.unfinished) for part in available)
        if available:
            sections.append(Section(id, title, _INTRODUCTIONS.get(id, ""), available))
    if not run.cells:
        missing.append(Missing("All tables and figures", "no cell is done"))
    name = str(run.facts.get("suite") or "benchmark")
    return Report(f"Report: {name}", _summary(run), tuple(_facts(run)), tuple(sections), tuple(missing))


def _with_note(part: Table | Figure | ShadedExample, note: str) -> Table | Figure | ShadedExample:
    """The same table or figure with one more note. Each may be copied out of the report."""
    if isinstance(part, Table):
        return replace(part, notes=(*part.notes, note))
    return replace(part, caption=f"{part.caption} {note}") if isinstance(part, Figure) else part


def _sections(records: Records, run: Run, results: Sequence[EntryResult]) -> Iterator[tuple[str, str, list[_Part]]]:
    """Id, title and parts of each section."""
    if run.cells:
        shown = without_curve_points(run)
        labels = set(shown.labels)
        of_shown = [result for result in results if result.label in labels]
        yield from _result_sections(shown, of_shown)
        yield "convergence", "Convergence", list(convergence_parts(run, results))
        yield "cost", "Cost", [cost_figure(shown, of_shown), cost_table(shown)]
        examples = load_examples(records, shown)
        shaded = map(shade_example, examples)
        yield "examples", "Examples", [distribution_figure(examples), *map(heat_map, examples), *shaded]
    if run.failures:
        yield "failures", "Failures", [_failure_table(run.failures)]


def _result_sections(run: Run, results: Sequence[EntryResult]) -> Iterator[tuple[str, str, list[_Part]]]:
    tests = run_pairwise_tests(run, results)
    for family in RATIO_FAMILIES:
        tables, figures = average_tables(run, results, family), bar_figures(run, results, family)
        full, pairwise = full_table(run, results, family), pairwise_table(run, tests, family)
        yield family.id, family.title, [*tables, *figures, full, pairwise]
    yield "sharpness", "Ranking or sharpness", [sharpness_table(run, results)]
    yield "paper", "Comparison with the paper", [paper_table(run, results)]
    yield "lds", LDS.title, [lds_table(run, results), pairwise_table(run, tests, LDS)]
    yield "leaderboard", "All metrics together", [leaderboard_table(run, results), same_examples_table(run, results)]
    yield "rationales", RATIONALES.title, [*rationale_tables(run, results), pairwise_table(run, tests, RATIONALES)]
    yield "ablations", "Replacers and hyperparameters", list(ablation_tables(run, results))


def _summary(run: Run) -> str:
    """The size of the run, and whether it is finished."""
    unfinished = f"{run.unfinished} " if run.unfinished else ""
    if not run.cells:
        return f"{unfinished}No cell is done, {len(run.failures):,} failed: there are no numbers to show yet."
    failed = f"; {len(run.failures):,} more failed" if run.failures else ""
    return (
        f"{unfinished}{_count(len(run.labels), 'method')} on {_count(run.example_count, 'example')} of "
        f"{_count(len(run.datasets), 'dataset')} by {_count(len(run.models), 'model')}: "
        f"{_count(len(run.cells), 'explanation')}{failed}."
    )


def _failure_table(failures: Sequence[Failure]) -> Table:
    """Equal errors of one entry share a row."""
    counts = Counter((f.model, f.dataset, f.label, shorten(f.error, ERROR_LENGTH)) for f in failures)
    return Table(
        id="failures",
        title="Failures",
        caption=f"{_count(len(failures), 'cell')} without numbers, and the errors.",
        columns=(
            *(Column(name, is_number=False) for name in ("model", "dataset", "method")),
            Column("cells"),
            Column("error", is_number=False),
        ),
        rows=tuple(
            (*map(TableCell, place), TableCell(f"{count:,}"), TableCell(error))
            for (*place, error), count in counts.items()
        ),
        records=tuple(vars(failure) for failure in failures),
    )


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    """The provenance of the numbers."""
    facts = run.facts
    for name in ("suite", "kind", "created", "version"):
        if facts.get(name):
            yield name, str(facts[name])
    models = facts.get("models")
    for model in run.models:
        info = models.get(model) if isinstance(models, Mapping) else None
        yield "model", f"{model} ({join_values(info, 'id', 'revision', 'dtype', 'backend')})" if info else model
    for dataset in run.datasets:
        cells = [cell for cell in run.cells if cell.dataset == dataset]
        examples, lengths = len({cell.example for cell in cells}), [cell.units for cell in cells]
        shortest, longest = min(lengths), max(lengths)
        units = _count(longest, "unit") if shortest == longest else f"{shortest:,} to {longest:,} units"
        yield "dataset", f"{dataset}: {_count(examples, 'example')} of {units}, {cells[0].level} level"
    if run.cells:
        yield "methods", ", ".join(run.labels)
        yield "seeds", ", ".join(str(seed) for seed in sorted({cell.seed for cell in run.cells}))
    unfinished = f". {run.unfinished}" if run.unfinished else ""
    yield "cells", f"{len(run.cells):,} done, {len(run.failures):,} failed{unfinished}"
    if run.cells:
        passes, seconds = sum(cell.passes for cell in run.cells), sum(cell.seconds for cell in run.cells)
        yield "cost", f"{passes:,} forward passes and {seconds:,.0f} s for these explanations, without evaluation"
    if spent := facts.get("cost"):
        yield (
            "cost of the run",
            f"{spent['forward_passes']:,.0f} forward passes, {spent['explaining_seconds']:,.0f} s of explaining and "
            f"{spent['evaluating_seconds']:,.0f} s of evaluating",
        )
    libraries = {"Python": facts.get("python"), **(facts.get("libraries") or {})}
    if libraries["Python"]:
        yield "made with", ", ".join(f"{name} {version}" for name, version in libraries.items())


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
