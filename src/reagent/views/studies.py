"""A prompt study in the terminal, and the sentences that all views share."""

from collections.abc import Iterator, Sequence

from rich import box, get_console
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from reagent.prompt_study import MeanEffect, Study, StudyPart
from reagent.views.summary import join_values
from reagent.views.terminal import print_parts
from reagent.views.text import sanitize, shorten

NAME_LENGTH = 40
LISTED = 6  # names in a sentence
STYLES = {
    "needed": "bold",
    "hurts": "red",
    "idle": "green",
    "redundant": "yellow",
    "borderline": "yellow",
    "unclear": "dim",
}
LEGEND = {
    "needed": "without it the answers become less likely",
    "hurts": "without it the answers become likelier",
    "idle": "certified within ± the threshold; all idle parts can go together",
    "redundant": "idle alone, but another part that says the same goes already",
    "borderline": "idle alone, but with the other idle parts the losses add up",
    "unclear": "the interval is too wide; give more inputs",
}
_ORDER = ("needed", "hurts", "redundant", "borderline", "unclear", "idle")


# --- sentences ---


def headline(study: Study) -> str:
    """Which parts matter, and which can go, in one sentence."""
    parts, removable = study.parts, study.removable
    needed = study.with_verdict("needed")
    matter = f"{count(len(needed), 'part')} {'matters' if len(needed) == 1 else 'matter'}"
    needed_names = f"{matter} ({names(needed)})" if needed else "no part matters for certain"
    if not removable.parts:
        return f"No part of {len(parts)} is certified idle, and {needed_names}."
    gone = [parts[i] for i in removable.parts]
    share = removable.tokens / study.prompt_tokens if study.prompt_tokens else 0.0
    saved = f"{format_share(share)} of the prompt’s tokens"
    return f"{len(gone)} of {count(len(parts), 'part')} can go: {names(gone)} ({saved}); {needed_names}."


def details(study: Study) -> list[str]:
    """What else follows, a sentence each."""
    lines = []
    if len(study.removable.parts) > 1:
        lines.append(f"Without all idle parts the answers {lose(study.removable.effect, study)}.")
    if hurting := study.with_verdict("hurts"):
        verb = "hurts" if len(hurting) == 1 else "hurt"
        lines.append(f"{count(len(hurting), 'part')} {verb}: {names(hurting)}.")
    for group in study.groups:
        members = names([study.parts[i] for i in group.parts])
        lines.append(
            f"{members} say the same: without all of them the answers {lose(group.effect, study)}, "
            f"one by one {format_number(group.single)} in sum."
        )
    if unclear := study.with_verdict("unclear"):
        verb = "is" if len(unclear) == 1 else "are"
        lines.append(f"{count(len(unclear), 'part')} {verb} unclear: {names(unclear)}. More inputs will tell.")
    if study.failed:
        first = study.failed[0]
        lines.append(
            f"{count(len(study.failed), 'input')} could not be measured; the first is {sanitize(first.id)}: "
            f"{sanitize(first.error)}."
        )
    return lines


def describe_measure(study: Study) -> str:
    """What the numbers are, in one line."""
    whose = "the expected answer" if study.metric == "answer" else "the model’s own answer"
    loses = lose(study.worth, study)
    return (
        f"{whose}, {count(len(study.inputs), 'input')}; without any text but the slots the answers {loses}; "
        f"effects within ±{study.threshold:.2g} {study.unit} count as none"
    )


def count(number: int, noun: str) -> str:
    """
    >>> count(1, "part"), count(2, "part")
    ('1 part', '2 parts')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def names(parts: Sequence[StudyPart]) -> str:
    """The names of some parts, of the first if there are many."""
    shown = [label(part) for part in parts[:LISTED]]
    more = f" and {len(parts) - LISTED} more" if len(parts) > LISTED else ""
    return ", ".join(shown) + more


def label(part: StudyPart) -> str:
    name = shorten(" ".join(sanitize(part.name).split()), NAME_LENGTH)
    return f"{{{{{name}}}}}" if part.kind == "slot" else f"“{name}”"


def ranked(study: Study) -> list[StudyPart]:
    """The parts by verdict, the largest effect first."""
    return sorted(study.parts, key=lambda part: (_ORDER.index(part.verdict), -abs(part.effect.mean or 0.0)))


def format_number(value: float | None) -> str:
    """
    >>> format_number(-0.26), format_number(0.001), format_number(None)
    ('−0.26', '0.00', '–')
    """
    return "–" if value is None else f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def format_interval(effect: MeanEffect) -> str:
    return "–" if effect.low is None else f"{format_number(effect.low)} … {format_number(effect.high)}"


def lose(effect: MeanEffect, study: Study) -> str:
    """What the answers lose or gain on average, with its interval."""
    mean = effect.mean or 0.0
    ends = (effect.low, effect.high) if mean >= 0 else (effect.high, effect.low)
    low, high = (None if end is None else end * (1 if mean >= 0 else -1) for end in ends)
    interval = (
        "" if low is None else f" ({format_share(study.level)} interval {format_number(low)} … {format_number(high)})"
    )
    return f"{'lose' if mean >= 0 else 'gain'} {format_number(abs(mean))} {sanitize(study.unit)} on average{interval}"


def format_share(share: float | None) -> str:
    """
    >>> format_share(0.256), format_share(None)
    ('26\xa0%', '–')
    """
    return "–" if share is None else f"{100 * share:.0f}\xa0%"


def describe_model(study: Study) -> str:
    template = "as a chat message" if study.chat else "as plain text"
    cost = study.cost
    return (
        f"{sanitize(str(study.model.get('id')))}, prompt {template} · {cost.forward_passes:,} forward passes, "
        f"{cost.tokens:,} tokens, {cost.seconds:.0f} s"
    )


def facts(study: Study) -> list[tuple[str, str]]:
    """Names and values of the provenance."""
    slots = "; ".join(f"{slot}: {', '.join(texts)}" for slot, texts in study.alternatives.items())
    pairs = [
        ("template", sanitize(study.name)),
        ("model", join_values(study.model, "id", "revision", "dtype")),
        ("measured", describe_measure(study)),
        ("alternatives", sanitize(slots)),
        ("cost", describe_model(study)),
        ("reagent", sanitize(f"{study.version}, {study.created}")),
    ]
    return [(name, value) for name, value in pairs if value]


# --- terminal ---


def show(study: Study, console: Console | None = None) -> None:
    """Print what matters and what can go."""
    print_parts(console or get_console(), _render(study))


def _render(study: Study) -> Iterator[RenderableType]:
    yield Text(headline(study), style="bold")
    for line in details(study):
        yield Text(line)
    yield _table(study)
    used = [verdict for verdict in LEGEND if any(part.verdict == verdict for part in study.parts)]
    yield Text(" · ".join(f"{verdict}: {LEGEND[verdict]}" for verdict in used), style="dim")
    yield Text(f"measured: {describe_measure(study)}", style="dim")
    yield Text(describe_model(study), style="dim")


def _table(study: Study) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("part", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for heading in (f"effect ({study.unit})", f"{format_share(study.level)} interval", "matters in", "tokens"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part in ranked(study):
        table.add_row(
            Text(label(part)),
            Text(part.verdict, style=STYLES[part.verdict]),
            format_number(part.effect.mean),
            format_interval(part.effect),
            format_share(part.matters),
            f"{part.tokens:.0f}",
        )
    return table
