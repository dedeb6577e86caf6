"""An evaluation in the terminal: each metric with its direction, its standard error and the random baseline."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich import box, get_console
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from reagent.evaluation import FLAGS, Evaluation, Result
from reagent.views.terminal import print_parts
from reagent.views.text import mark_cut, mark_whitespace, sanitize, shorten

MEASURES = {"hellinger": "Hellinger", "spearman": "Spearman", "pearson": "Pearson"}
_BY_REMOVAL = re.compile(r"(?P<quantity>[a-z]+)_(?P<removal>delete|mask|replace)(_(?P<percent>[\d.]+))?")
NAME_LENGTH = 48
LEGEND = (
    "± standard error: the variation between seeds",
    "random: the value of random attributions, with a new one for every draw",
    "ratio: value divided by random; – where random does not differ from 0",
)


def show(evaluation: Evaluation, console: Console | None = None) -> None:
    """Print the table, the notes about it and the metrics that were skipped."""
    print_parts(console or get_console(), _render(evaluation))


def show_together(evaluations: Sequence[Evaluation], console: Console | None = None) -> None:
    """Print one table with a column for each explanation, and the notes."""
    print_parts(console or get_console(), _render_together(evaluations))


def _render_together(evaluations: Sequence[Evaluation]) -> Iterator[RenderableType]:
    first, names = evaluations[0], [_name(evaluation) for evaluation in evaluations]
    yield _title(first, "the explanations")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("metric", "measure", "better"):
        table.add_column(heading, no_wrap=True)
    for name in (*names, "random"):
        table.add_column("\n".join(name.split()), justify="right", no_wrap=True)
    for i, result in enumerate(first.results):
        row = [evaluation.results[i] for evaluation in evaluations]
        best = (max if result.higher_is_better else min)(one.value for one in row)
        table.add_row(
            Text(sanitize(result.metric) + (" !" if any(one.flags for one in row) else "")),
            _describe_measure(result.measure),
            "higher" if result.higher_is_better else "lower",
            *(_narrow(one.value, one.stderr, one.value == best) for one in row),
            _narrow(result.random, result.random_stderr, False),
        )
    yield table
    notes = [f"{name}: {line}" for name, one in zip(names, evaluations, strict=True) for line in _notes(one)]
    for line in notes:
        yield Text.assemble(("note: ", "bold yellow"), line)
    for reason, skipped in _skipped_by_reason(first).items():
        yield Text.assemble(("skipped: ", "bold"), f"{', '.join(skipped)}: {sanitize(reason)}")
    yield Text(" · ".join(LEGEND[:2]), style="dim")
    yield Text(_describe_cost(first), style="dim")


def _name(evaluation: Evaluation) -> str:
    method = evaluation.explanation["method"]
    return sanitize(" ".join(str(method[key]) for key in ("id", "preset") if method.get(key)))


def _render(evaluation: Evaluation) -> Iterator[RenderableType]:
    yield _title(evaluation, _name(evaluation))
    yield _table(evaluation.results) if evaluation.results else Text("Nothing could be measured.")
    for line in _notes(evaluation):
        yield Text.assemble(("note: ", "bold yellow"), line)
    for reason, names in _skipped_by_reason(evaluation).items():
        yield Text.assemble(("skipped: ", "bold"), f"{', '.join(names)}: {sanitize(reason)}")
    yield Text(" · ".join(LEGEND), style="dim")
    yield Text(_describe_cost(evaluation), style="dim")


def _title(evaluation: Evaluation, name: str) -> Text:
    completion = shorten(mark_whitespace(mark_cut(str(evaluation.explanation["completion"]))), NAME_LENGTH)
    count = len(evaluation.targets)
    where = "" if evaluation.level == "token" else f", mean over {count} output tokens"
    return Text.assemble(
        "How faithful is " if name == _name(evaluation) else "How faithful are ",
        (name, "bold"),
        " to ",
        (sanitize(str(evaluation.model.get("id"))), "bold"),
        " on ",
        (completion, "bold"),
        f"?  {evaluation.level} level{where}",
    )


def _table(results: Sequence[Result]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    table.add_column("measure", no_wrap=True)
    table.add_column("better", no_wrap=True)
    for heading in ("value", "random", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            Text(sanitize(result.metric) + (" !" if result.flags else "")),
            _describe_measure(result.measure),
            "higher" if result.higher_is_better else "lower",
            _format_number(result.value, result.stderr),
            _format_number(result.random, result.random_stderr),
            "–" if result.ratio is None else f"{result.ratio:.1f}",
        )
    return table


def _describe_measure(name: str) -> str:
    """The quantity, and the removal and the share if they are not the usual ones.

    >>> _describe_measure("spearman"), _describe_measure("spearman_delete_30"), _describe_measure("nats_delete")
    ('Spearman', 'Spearman, delete 30 %', 'nats, delete')
    """
    parts = _BY_REMOVAL.fullmatch(name)
    if parts is None:
        return MEASURES.get(name, sanitize(name))
    share = f" {parts['percent']} %" if parts["percent"] else ""
    return f"{MEASURES.get(parts['quantity'], parts['quantity'])}, {parts['removal']}{share}"


def _format_number(value: float, stderr: float) -> str:
    return f"{value:.3f} ± {stderr:.3f}" if stderr else f"{value:.3f}        "


def _narrow(value: float, stderr: float, best: bool) -> Text:
    """A number with its standard error below it."""
    error = f"\n± {stderr:.3f}" if stderr else ""
    return Text.assemble((f"{value:.3f}", "bold" if best else ""), (error, "dim"))


def _notes(evaluation: Evaluation) -> Iterator[str]:
    """List the flags, with one line for each meaning, and the warnings."""
    metrics_by_note = defaultdict(list)
    for result in evaluation.results:
        for flag in result.flags:
            affected = sum(flag in target.flags for target in result.targets)
            where = "" if len(result.targets) < 2 else f" at {affected} of {len(result.targets)} targets"
            metrics_by_note[f"{where}: {FLAGS[flag]}"].append(result.metric)
    for text, names in metrics_by_note.items():
        yield f"! {', '.join(dict.fromkeys(names))}{text}"
    yield from map(sanitize, evaluation.warnings)


def _skipped_by_reason(evaluation: Evaluation) -> dict[str, list[str]]:
    metrics = defaultdict(list)
    for skipped in evaluation.skipped:
        metrics[skipped.reason].append(sanitize(skipped.metric))
    return metrics


def _describe_cost(evaluation: Evaluation) -> str:
    cost, settings = evaluation.cost, evaluation.settings
    replacer = sanitize(str((settings.get("replacer") or {}).get("id")))
    passes = f"{cost['forward_passes']:,} forward passes, {cost['seconds']:.1f} s"
    return f"{passes} · replacer {replacer} · seed {settings.get('seed')}"
