"""The views of a traced answer: the table in the terminal, and the graph in the page."""

from dataclasses import replace
from io import StringIO

from rich.console import Console

import reagent
from reagent.comparison import Comparison
from reagent.explanation import Explanation, Message, TraceCheck, TracePart
from reagent.testing import two_hops
from reagent.views.html import render_page, to_view_data
from reagent.views.terminal import show
from reagent.views.tracing import MAX_PARTS, TraceView
from views.browser import draw, needs_node
from views.samples import HOSTILE, make

PROMPT = "My aunt moved to Japan. Her piano is old. She rents a flat in the capital."
COMPLETION = " The aunt is in Japan. The capital of Japan is Tokyo."


def traced(important: str = " Japan", **changes: object) -> Explanation:
    return make(PROMPT, COMPLETION, important=important, **changes).traced("Tokyo")


def printed(why: Explanation, width: int = 80, target: int | None = None) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    show(why, console=console, target=target)
    return console.file.getvalue()  # type: ignore[attr-defined]


def checked(why: Explanation) -> Explanation:
    trace = why.trace
    assert trace is not None
    source = trace.sources[0]
    check = TraceCheck(source.start, source.end, source.text, source.share, " She is at home.", False, -7.25)
    return replace(why, trace=replace(trace, checks=(check,)))


def test_the_terminal_shows_where_each_part_comes_from() -> None:
    lines = printed(traced()).splitlines()
    assert lines[0].startswith("Why ·Tokyo?")
    rows = {line.split()[0]: line for line in lines if line.split()}
    assert "My aunt moved to Japan." in rows["P1"]
    assert "P1" in rows["R1"].split("Japan.")[1]
    assert "R1" in rows["A"]
    assert any("of the answer passes through the reasoning" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_checks_and_warnings_are_said() -> None:
    text = " ".join(printed(checked(traced())).split())
    assert "Without P1 “My aunt moved to Japan.”" in text
    assert "the model does not give the answer: “She is at home.”; log-probability of the answer −0.6 to −7.2" in text
    assert "--check-traced" not in text
    assert "--check-traced" in " ".join(printed(traced()).split())
    uncertain = make(PROMPT, COMPLETION, stopped=["flat"] * 13)
    assert "100 % of the answer passes through generated tokens" in " ".join(printed(uncertain.traced("Tokyo")).split())


def test_an_explanation_that_carries_a_trace_is_shown_traced() -> None:
    why = reagent.explain(two_hops(), "x a3 y z", max_new_tokens=2, answer_span="c3")
    assert printed(why) == printed(why.traced())
    assert to_view_data(why) == to_view_data(why.traced())
    assert "P2" in printed(why)
    assert "P2" not in printed(why, target=0)


def test_an_answer_without_reasoning_says_so() -> None:
    text = " ".join(printed(make(PROMPT, " Tokyo").traced()).split())
    assert "There is no text before the answer" in text


def test_only_the_strongest_of_many_parts_are_shown() -> None:
    trace = traced().trace
    assert trace is not None
    many = tuple(TracePart(f"{i}.", i, i + 1, 0.9 / 40 if i else 0.1) for i in range(40))
    view = TraceView(traced(), replace(trace, sources=many, flows=()))
    assert len([node for node in view.nodes if node.kind == "prompt"]) == MAX_PARTS
    assert view.nodes[0].name == "P1"
    assert view.rest == "28 parts are not shown; none has more than 0.02"


def test_parts_of_a_chat_have_their_roles() -> None:
    messages = (Message("user", 0, 23), Message("tool", 24, len(PROMPT), name="diary"))
    data = to_view_data(traced(messages=messages))["trace"]
    assert [node["role"] for node in data["nodes"] if node["kind"] == "prompt"] == ["user", "tool diary", "tool diary"]
    assert "tool diary: She rents" in printed(traced(messages=messages), width=140)


def test_a_hostile_text_stays_text() -> None:
    page = render_page(make(HOSTILE + " a. b c.", COMPLETION).traced("Tokyo"))
    assert "<script>alert" not in page


@needs_node
def test_the_graph_can_be_walked() -> None:
    data = to_view_data(checked(traced()))
    drawn = draw(data)
    nodes = drawn.parts("trace-node")
    names = [node["name"] for node in data["trace"]["nodes"]]
    assert [node.parts("trace-name")[0].text() for node in nodes] == names
    assert nodes[0].text(spoken=True).startswith("P1, My aunt moved to Japan., 0.")
    assert [node.node["attributes"]["tabindex"] for node in nodes] == ["0", *["-1"] * (len(nodes) - 1)]
    assert "Without P1" in drawn.parts("trace-check")[0].text()
    chosen = draw(data, "", (".reagent-trace-node", names.index("R1"), "click"))
    assert chosen.parts("trace-readout")[0].text().startswith("R1: 0.")
    assert "from P1 0." in chosen.parts("trace-readout")[0].text()
    selected = [node for node in chosen.parts("trace-node") if node.node["attributes"]["aria-selected"] == "true"]
    assert [node.parts("trace-name")[0].text() for node in selected] == ["R1"]
    bands = chosen.parts("trace-graph")[0].node["children"][0]["children"]
    assert len(bands) == len(data["trace"]["flows"])
    linked = [band["attributes"]["data-flow"] for band in bands if band["attributes"]["class"] == "reagent-linked"]
    assert all(str(names.index("R1")) in flow.split() for flow in linked)


def test_the_script_of_the_graph_is_only_where_a_trace_is() -> None:
    plain, one = make(PROMPT, COMPLETION), traced()
    assert "function reagentTrace" not in render_page(plain)
    assert "function reagentTrace" in render_page(one)
    assert "function reagentTrace" in Comparison((one, one)).to_html()


@needs_node
def test_a_view_without_a_trace_has_no_graph() -> None:
    assert not draw(to_view_data(make(PROMPT, COMPLETION))).parts("trace")
