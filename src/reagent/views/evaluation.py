"""An evaluation in the terminal: every number with its direction, its error, and random's value next to it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich import box, get_console
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from reagent.evaluation import FLAGS, Evaluation, Result
from reagent.views.text import quoted, shortened, visible

MEASURES = {"hellinger": "Hellinger", "spearman": "Spearman", "pearson": "Pearson"}
NAME_LENGTH = 48
LEGEND = (
    "± standard error: what other seeds would change",
    "random: what random attributions get, a fresh one for every draw",
    "ratio: value over random's; – where random's may as well be 0",
)


def show(evaluation: Evaluation, console: Console | None = None) -> None:
    """Print the table, what was skipped and what to know about the numbers."""
    console = console or get_console()
    if console.encoding.lower().startswith("utf"):
        _print(console, evaluation)
        return
    with console.capture() as captured:
        _print(console, evaluation)
    writable = captured.get().encode(console.encoding, "replace").decode(console.encoding)
    console.out(writable, end="", highlight=False)


def _print(console: Console, evaluation: Evaluation) -> None:
    for part in _parts(evaluation):
        console.print(part, highlight=False)


def _parts(evaluation: Evaluation) -> Iterator[RenderableType]:
    yield _title(evaluation)
    yield _table(evaluation.results) if evaluation.results else Text("Nothing could be measured.")
    for line in _notes(evaluation):
        yield Text.assemble(("note: ", "bold yellow"), line)
    for reason, names in _skipped(evaluation).items():
        yield Text.assemble(("skipped: ", "bold"), f"{', '.join(names)}: {visible(reason)}")
    yield Text(" · ".join(LEGEND), style="dim")
    yield Text(_cost(evaluation), style="dim")


def _title(evaluation: Evaluation) -> Text:
    method = evaluation.explanation["method"]
    name = " ".join(str(method[key]) for key in ("id", "preset") if method.get(key))
    said = shortened(quoted(str(evaluation.explanation["completion"])), NAME_LENGTH)
    count = len(evaluation.targets)
    where = "" if evaluation.level == "token" else f", mean over {count} output tokens"
    return Text.assemble(
        "How faithful is ",
        (visible(name), "bold"),
        " to ",
        (visible(str(evaluation.model.get("id"))), "bold"),
        " on ",
        (said, "bold"),
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
            Text(visible(result.metric) + (" !" if result.flags else "")),
            MEASURES.get(result.measure, visible(result.measure)),
            "higher" if result.higher_is_better else "lower",
            _number(result.value, result.stderr),
            _number(result.random, result.random_stderr),
            "–" if result.ratio is None else f"{result.ratio:.1f}",
        )
    return table


def _number(value: float, stderr: float) -> str:
    return f"{value:.3f} ± {stderr:.3f}" if stderr else f"{value:.3f}        "


def _notes(evaluation: Evaluation) -> Iterator[str]:
    """Flags, those with the same meaning in one line, and warnings."""
    flagged = defaultdict(list)
    for result in evaluation.results:
        for flag in result.flags:
            of = sum(flag in target.flags for target in result.targets)
            where = "" if len(result.targets) < 2 else f" at {of} of {len(result.targets)} targets"
            flagged[f"{where}: {FLAGS[flag]}"].append(result.metric)
    for text, names in flagged.items():
        yield f"! {', '.join(dict.fromkeys(names))}{text}"
    yield from map(visible, evaluation.warnings)


def _skipped(evaluation: Evaluation) -> dict[str, list[str]]:
    found = defaultdict(list)
    for skipped in evaluation.skipped:
        found[skipped.reason].append(visible(skipped.metric))
    return found


def _cost(evaluation: Evaluation) -> str:
    cost, settings = evaluation.cost, evaluation.settings
    replacer = visible(str((settings.get("replacer") or {}).get("id")))
    passes = f"{cost['forward_passes']:,} forward passes, {cost['seconds']:.1f} s"
    return f"{passes} · replacer {replacer} · seed {settings.get('seed')}"
