"""Which tables and figures a run allows, in the order in which they are read."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from reagent.report.analysis import FAMILIES, MARKED, PREDICTED, Finding
from reagent.report.contents import Contents, Drawing, Section, Shaded
from reagent.report.figures.bars import bar_figures, cost_figure
from reagent.report.figures.convergence import convergence
from reagent.report.figures.examples import chosen_examples, distribution, heat_map, shaded
from reagent.report.load import Failure, Records, Run, without_stages
from reagent.report.tables.ablations import variant_tables
from reagent.report.tables.base import Column, Missing, Table, TableCell
from reagent.report.tables.leaderboard import best_table, same_examples
from reagent.report.tables.pairwise import pairwise_tables, pairwise_tests
from reagent.report.tables.rationales import rationale_tables
from reagent.report.tables.sharpness import sharpness_table
from reagent.report.tables.study import averages, beside_the_paper, cost_table, full_table, lds_table
from reagent.views.summary import join_values
from reagent.views.text import shorten

ERROR_LENGTH = 300
_WORDS = {
    "soft": "Elements of the embeddings are kept or removed as likely as the scores say (Soft-NS, Soft-NC, the paper’s "
    "metrics). Above 0 is better than random attributions of the same examples. Peaked scores have an advantage here.",
    "pi_soft": "The same when every method selects an equal share, so that sharpness makes no difference.",
    "replacement": "The most important units are replaced by what might stand there (comprehensiveness), or all others "
    "(sufficiency, where less change is better).",
    "sharpness": "Soft perturbation rewards peaked scores whatever their order, so a lead there is only in part "
    "a better ranking.",
    "standing": "Metrics ask different questions and need not agree, and means over other examples cannot be compared.",
    "examples": "Each text is shaded by its scores as a share of the largest of the method.",
    "failures": "These cells have no numbers; the others are not touched by it. Run again with --retry-failed.",
}


def assemble(records: Records, run: Run, found: Sequence[Finding]) -> Contents:
    """Everything; what cannot be drawn is listed with the reason."""
    parts, whole = _Parts(), run
    run = without_stages(run)
    labels = set(run.labels)
    found, every = [finding for finding in found if finding.label in labels], found
    if run.rows:
        fought = pairwise_tests(run, found)
        for family in FAMILIES:
            figures = bar_figures(run, found, family)
            tables = averages(run, found, family)
            parts.add(
                family.id,
                family.title,
                [*tables, *figures, full_table(run, found, family), pairwise_tables(run, fought, family)],
            )
        parts.add("sharpness", "Ranking or sharpness", [sharpness_table(run, found)])
        parts.add("paper", "Beside the paper", [beside_the_paper(run, found)])
        parts.add("lds", "Effects as predictions", [lds_table(run, found), pairwise_tables(run, fought, PREDICTED)])
        parts.add("standing", "All metrics together", [best_table(run, found), same_examples(run, found)])
        parts.add("rationales", "Rationales", [*rationale_tables(run, found), pairwise_tables(run, fought, MARKED)])
        parts.add("variants", "Replacers and hyperparameters", variant_tables(run, found))
        curves = convergence(whole, every)
        parts.add("convergence", "Convergence", [curves] if isinstance(curves, Missing) else curves)
        parts.add("cost", "Cost", [cost_figure(run, found), cost_table(run)])
        examples = chosen_examples(records, run)
        parts.add("examples", "Examples", [distribution(examples), *map(heat_map, examples), *map(shaded, examples)])
    else:
        parts.missing.append(Missing("All tables and figures", "no cell is done"))
    parts.add("failures", "Failures", [_failures(run.failures)] if run.failures else [])
    name = str(run.facts.get("suite") or "benchmark")
    return Contents(f"Report: {name}", tuple(_facts(whole)), tuple(parts.sections), tuple(parts.missing))


def lead(run: Run) -> str:
    """What was done, in one sentence."""
    if not run.rows:
        return f"No cell is done, {len(run.failures):,} failed: there are no numbers to show yet."
    failed = f"; {len(run.failures):,} more failed" if run.failures else ""
    return (
        f"{_counted(len(run.labels), 'method')} on {_counted(run.examples, 'example')} of "
        f"{_counted(len(run.datasets), 'dataset')} by {_counted(len(run.models), 'model')}: "
        f"{_counted(len(run.rows), 'explanation')}{failed}."
    )


class _Parts:
    """The sections so far, and what is missing."""

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.missing: list[Missing] = []

    def add(self, id: str, title: str, parts: Iterable[Table | Drawing | Shaded | Missing]) -> None:
        parts = list(parts)
        self.missing += [part for part in parts if isinstance(part, Missing)]
        shown = tuple(part for part in parts if not isinstance(part, Missing))
        if shown:
            self.sections.append(Section(id, title, _WORDS.get(id, ""), shown))


def _failures(failures: Sequence[Failure]) -> Table:
    """Equal errors of one entry in one line."""
    counts = Counter((f.model, f.dataset, f.label, shorten(f.error, ERROR_LENGTH)) for f in failures)
    return Table(
        id="failures",
        title="What failed",
        caption=f"{_counted(len(failures), 'cell')} without numbers, and why.",
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


def _facts(run: Run) -> Iterable[tuple[str, str]]:
    """Where the numbers come from."""
    facts = run.facts
    for name in ("suite", "kind", "created", "version"):
        if facts.get(name):
            yield name, str(facts[name])
    known = facts.get("models")
    for model in run.models:
        info = known.get(model) if isinstance(known, Mapping) else None
        yield "model", f"{model} ({join_values(info, 'id', 'revision', 'dtype', 'backend')})" if info else model
    for dataset in run.datasets:
        rows = [row for row in run.rows if row.dataset == dataset]
        examples, lengths = len({row.example for row in rows}), [row.units for row in rows]
        shortest, longest = min(lengths), max(lengths)
        units = _counted(longest, "unit") if shortest == longest else f"{shortest:,} to {longest:,} units"
        yield "dataset", f"{dataset}: {_counted(examples, 'example')} of {units}, {rows[0].level} level"
    if run.rows:
        yield "methods", ", ".join(run.labels)
        yield "seeds", ", ".join(str(seed) for seed in sorted({row.seed for row in run.rows}))
    yield "cells", f"{len(run.rows):,} done, {len(run.failures):,} failed"
    if run.rows:
        passes, seconds = sum(row.passes for row in run.rows), sum(row.seconds for row in run.rows)
        yield "cost", f"{passes:,} forward passes and {seconds:,.0f} s for these explanations, without evaluation"
    if spent := facts.get("cost"):
        yield (
            "cost of the run",
            f"{spent['forward_passes']:,.0f} forward passes, {spent['explaining_seconds']:,.0f} s of explaining and "
            f"{spent['evaluating_seconds']:,.0f} s of evaluating",
        )
    made_with = {"Python": facts.get("python"), **(facts.get("libraries") or {})}
    if made_with["Python"]:
        yield "made with", ", ".join(f"{name} {version}" for name, version in made_with.items())


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
