"""An answer traced through the reasoning: what the terminal and the page show of it.

Parts have short names: P for a sentence of the prompt, R for one of the reasoning, A for the answer, each with its
number in the text. All shares are shares of the answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reagent.explanation import Explanation, Trace, TraceCheck, TraceFlow, TracePart
from reagent.views.fitted_label import FittedLabel
from reagent.views.summary import Caption, CaptionPart, plain_text
from reagent.views.text import mark_whitespace, role_name, shorten

MAX_PARTS = 12  # of the prompt, and of the reasoning
LEAST_SHARE = 0.01  # of a part or of a flow that is shown
SOURCES = 3  # named for each part in the terminal
UNRELIABLE = 0.1  # share from which on a warning is shown
NAME_LENGTH, TEXT_LENGTH, NEW_LENGTH = 80, 500, 160
ASSUMPTION = "Shares are products along paths through the text as it is. They assume that effects mediate linearly."
CHECK = " To check it, generate the reasoning again without a part of the prompt: --check-traced N, or check_traced."


@dataclass(frozen=True)
class TraceNode:
    """A part that is shown."""

    number: int  # among the parts of the trace
    name: str
    kind: str  # prompt, reasoning or answer
    part: TracePart
    role: str = ""  # of its message in a chat

    @property
    def label(self) -> str:
        text = mark_whitespace(self.part.text.strip())
        return f"{self.role}: {text}" if self.role else text


class TraceView:
    """The parts and flows of a trace that are large enough to be shown."""

    def __init__(self, explanation: Explanation, trace: Trace) -> None:
        self.trace = trace
        sources, steps = len(trace.sources), len(trace.steps)
        self.names = [
            *(f"P{i + 1}" for i in range(sources)),
            *(f"R{i + 1}" for i in range(steps)),
            "A",
        ]
        prompt = [
            TraceNode(i, self.names[i], "prompt", part, _role(explanation, part))
            for i, part in enumerate(trace.sources)
        ]
        reasoning = [
            TraceNode(sources + i, self.names[sources + i], "reasoning", part) for i, part in enumerate(trace.steps)
        ]
        self.answer = TraceNode(sources + steps, "A", "answer", trace.answer)
        self.nodes = [*_strongest(prompt), *_strongest(reasoning), self.answer]
        shown = {node.number for node in self.nodes}
        self.hidden = [node for node in (*prompt, *reasoning) if node.number not in shown]
        self.flows = [
            flow for flow in trace.flows if flow.share >= LEAST_SHARE and flow.source in shown and flow.target in shown
        ]

    def incoming(self, node: TraceNode) -> list[TraceFlow]:
        """The flows that lead to a part, the largest first."""
        return sorted((flow for flow in self.flows if flow.target == node.number), key=lambda flow: -flow.share)

    def directly(self, node: TraceNode) -> float:
        """The share that goes from a part to the answer and passes through nothing else."""
        answer = self.answer.number
        return sum(flow.share for flow in self.trace.flows if (flow.source, flow.target) == (node.number, answer))

    # --- texts ---

    @property
    def summary(self) -> Caption:
        if not self.trace.steps:
            return [
                CaptionPart("There is no text before the answer: its traced shares are those of the prompt itself.")
            ]
        direct = sum(self.trace.direct)
        return [
            CaptionPart(f"{_percent(1 - direct)} of the answer passes through the reasoning, "),
            CaptionPart(f"{_percent(direct)} comes from the prompt directly."),
        ]

    @property
    def warning(self) -> str:
        if self.trace.unreliable < UNRELIABLE:
            return ""
        return (
            f"{_percent(self.trace.unreliable)} of the answer passes through generated tokens that nothing in their "
            "context makes more likely: their scores are uniform, and these paths are meaningless"
        )

    @property
    def rest(self) -> str:
        """What is left out."""
        if not self.hidden:
            return ""
        parts = "1 part is" if len(self.hidden) == 1 else f"{len(self.hidden)} parts are"
        return f"{parts} not shown; none has more than {max(node.part.share for node in self.hidden):.2f}"

    @property
    def note(self) -> str:
        return ASSUMPTION + ("" if self.trace.checks else CHECK)

    @property
    def checks(self) -> list[Caption]:
        return [self._check(check) for check in self.trace.checks]

    def _check(self, check: TraceCheck) -> Caption:
        numbers = {(part.start, part.end): name for part, name in zip(self.trace.sources, self.names, strict=False)}
        name = numbers.get((check.start, check.end), "")
        kept = "still gives the answer" if check.produced else "does not give the answer"
        caption = [
            CaptionPart(f"Without {name} ".replace("  ", " ")),
            _quote(check.text, NAME_LENGTH),
            CaptionPart(f" (share {check.share:.2f}) the model {kept}: "),
            _quote(check.completion, NEW_LENGTH),
        ]
        before = "" if self.trace.logprob is None else f"{self.trace.logprob:.1f} to ".replace("-", "−")
        after = f"{check.logprob:.1f}".replace("-", "−")
        return [*caption, CaptionPart(f"; log-probability of the answer {before}{after} nats.")]


# --- terminal ---


def render_trace(explanation: Explanation) -> Iterator[RenderableType]:
    """Render the parts as a table, then the checks; nothing without a trace, or if a single token is shown."""
    if explanation.trace is None or explanation.attributes == "context":
        return
    view = TraceView(explanation, explanation.trace)
    yield Text(plain_text(view.summary))
    yield _table(view)
    if view.rest:
        yield Text(view.rest, style="dim")
    for caption in view.checks:
        yield Text.assemble(*((part.text, "bold" if part.quoted else "") for part in caption))
    if view.warning:
        yield Text.assemble(("warning: ", "bold yellow"), view.warning)
    yield Text(f"P prompt, R reasoning, A answer. {view.note}", style="dim")


def _table(view: TraceView) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("part", min_width=12)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("directly", justify="right", no_wrap=True)
    table.add_column("comes from", no_wrap=True)
    for node in view.nodes:
        is_answer = node.kind == "answer"
        flows = view.incoming(node)
        names = "  ".join(f"{view.names[flow.source]} {flow.share:.2f}" for flow in flows[:SOURCES])
        table.add_row(
            Text(node.name, style="bold"),
            FittedLabel(node.label, style="bold" if is_answer else ""),
            f"{node.part.share:.2f}",
            "" if is_answer else f"{view.directly(node):.2f}",
            names + ("  …" if len(flows) > SOURCES else ""),
            end_section=node.kind == "prompt" and view.nodes[view.nodes.index(node) + 1].kind != "prompt",
        )
    return table


# --- the page ---


def trace_view_data(explanation: Explanation) -> dict[str, Any] | None:
    """Collect what `reagentTrace` in trace.js draws, as plain JSON; None without a trace."""
    if explanation.trace is None:
        return None
    view = TraceView(explanation, explanation.trace)
    place = {node.number: i for i, node in enumerate(view.nodes)}
    return {
        "summary": view.summary,
        "warning": view.warning,
        "note": view.note,
        "rest": view.rest,
        "checks": view.checks,
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "role": node.role,
                "short": shorten(mark_whitespace(node.part.text.strip()), NAME_LENGTH),
                "text": shorten(mark_whitespace(node.part.text.strip()), TEXT_LENGTH),
                "share": round(node.part.share, 4),
            }
            for node in view.nodes
        ],
        "flows": [[place[flow.source], place[flow.target], round(flow.share, 4)] for flow in view.flows],
    }


def _strongest(nodes: Sequence[TraceNode]) -> list[TraceNode]:
    """The parts with the largest shares, in the order of the text."""
    order = sorted((node for node in nodes if node.part.share >= LEAST_SHARE), key=lambda node: -node.part.share)
    return sorted(order[:MAX_PARTS], key=lambda node: node.number)


def _role(explanation: Explanation, part: TracePart) -> str:
    """The role of the message of a part; empty if all parts have the same."""
    if len(explanation.messages) < 2:
        return ""
    return next((role_name(m) for m in explanation.messages if m.start <= part.start < m.end), "")


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0, share)):.0f} %"


def _quote(text: str, length: int) -> CaptionPart:
    return CaptionPart(f"“{shorten(mark_whitespace(text.strip()), length)}”", quoted=True)
