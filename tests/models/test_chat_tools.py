"""Chats of agents: tool calls and results of tools go through the template, and each message is found again."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import tiny
from reagent import explain
from reagent.errors import FileError, InputError
from reagent.explanation import Explanation
from reagent.models.chat import check_messages, check_tools, load_messages, render_chat
from reagent.models.huggingface import HuggingFaceModel
from reagent.views.text import all_labels, split_into_pieces

# In the manner of common templates: definitions in the first message, calls as JSON, results with their own role.
TEMPLATE = (
    "{% if tools %}[system]\nTools: {{ tools | tojson }}\n{% endif %}"
    "{% for m in messages %}[{{ m.role }}]\n{{ m.content | trim }}"
    "{% for call in m.tool_calls or [] %}<call>{{ {'name': call.function.name, 'arguments': call.function.arguments} "
    "| tojson }}</call>{% endfor %}\n{% endfor %}{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
PYTHONIC = TEMPLATE.replace(
    "{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}",
    "{{ call.function.name }}({% for k, v in call.function.arguments.items() %}{{ k }}={{ v }}, {% endfor %})",
)
NO_TOOLS = "{% for m in messages %}[{{ m.role }}]\n{{ m.content }}\n{% endfor %}[assistant]\n"
STRICT = "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no role tool') }}{% endif %}{% endfor %}"
TOOLS = [{"type": "function", "function": {"name": "read_mail", "description": "Read.", "parameters": {}}}]
AGENT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Read my mail."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "read_mail", "arguments": '{"box": "in {1}", "n": 3}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "She rents a small flat."},
]


def acting(template: str = TEMPLATE) -> HuggingFaceModel:
    tokenizer = copy.deepcopy(tiny.tokenizer_of("gpt2"))
    tokenizer.chat_template = template
    return HuggingFaceModel(long_network(len(tokenizer)), tokenizer, name="tiny")


@cache
def long_network(vocabulary: int) -> GPT2LMHeadModel:
    """The definitions of tools are long for the tiny networks of other tests."""
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_embd=32, n_layer=1, n_head=2, n_positions=512)).eval()


def spans(template: str, messages: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    tokenizer = acting(template).tokenizer
    text, rendered = render_chat(tokenizer, check_messages(messages), "tiny")
    return [(m.role, text[m.start : m.end], m.name) for m in rendered]


def test_calls_and_results_are_found_in_the_text() -> None:
    assert spans(TEMPLATE, AGENT) == [
        ("system", "Be brief.", None),
        ("user", "Read my mail.", None),
        ("assistant", '{"name": "read_mail", "arguments": {"box": "in {1}", "n": 3}}', None),
        ("tool", "She rents a small flat.", "read_mail"),
    ]


def test_a_call_that_is_not_json_ends_with_its_last_argument() -> None:
    assert spans(PYTHONIC, AGENT)[2][1] == "read_mail(box=in {1}, n=3"


def test_content_and_several_calls_are_one_message() -> None:
    calls = [{"function": {"name": name, "arguments": {"n": n}}} for n, name in enumerate(("read_mail", "send_mail"))]
    said = {"role": "assistant", "content": "I look.", "tool_calls": calls}
    text = spans(TEMPLATE, [AGENT[1], said, {"role": "tool", "name": "clock", "content": "ten"}])
    assert text[1][1].startswith("I look.<call>{")
    assert text[1][1].endswith('"arguments": {"n": 1}}')
    assert text[2][2] == "clock"


def test_a_result_without_an_id_belongs_to_the_last_call() -> None:
    assert spans(TEMPLATE, [*AGENT[:3], {"role": "tool", "content": "ten"}])[3][2] == "read_mail"
    assert spans(TEMPLATE, [AGENT[1], {"role": "tool", "content": "ten"}])[1][2] is None


def test_every_message_is_a_unit_on_request() -> None:
    why = explain(acting(), AGENT, max_new_tokens=2, units="message", probes=8, tools=TOOLS)
    free = [unit.text for unit in why.input if not unit.protected]
    assert free == [
        "Be brief.",
        "Read my mail.",
        '{"name": "read_mail", "arguments": {"box": "in {1}", "n": 3}}',
        "She rents a small flat.",
    ]
    assert why.prompt.startswith("[system]\nTools: [")
    names = all_labels(why)
    assert [names[i] for i, unit in enumerate(why.input) if not unit.protected][3] == "tool read_mail: " + free[3]
    assert "tool read_mail" in [piece.text for piece in split_into_pieces(why)]
    assert Explanation.from_dict(json.loads(why.to_json())) == why


def test_messages_can_be_refined_to_words() -> None:
    why = explain(acting(), AGENT, max_new_tokens=1, units=["message", "word"], probes=40)
    assert [level.unit for level in why.levels] == ["message"]
    assert sum(why.scores[0]) == pytest.approx(1)


def test_an_argument_of_a_call_is_a_phrase_of_the_output() -> None:
    target = '<call>{"name": "send_mail", "arguments": {"to": "eve"}}</call>'
    why = explain(acting(), AGENT, target=target, target_span="eve", units="message", probes=8, tools=TOOLS)
    assert "eve" in why.output[why.focus].text


@pytest.mark.parametrize(
    ("template", "messages", "complaint"),
    [
        (NO_TOOLS, AGENT, "does not write the call of 'read_mail' in message 2: give a model whose template knows"),
        (STRICT, AGENT, "refuses these messages: no role tool"),
        ("{{ messages[0].content }}", AGENT[:2], "leaves out or changes the user message"),
    ],
)
def test_a_template_that_does_not_know_tools_is_one_line(
    template: str, messages: list[dict[str, Any]], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        acting(template).chat(check_messages(messages))
    assert "\n" not in str(caught.value)


def test_a_template_that_ignores_definitions_is_told() -> None:
    with pytest.raises(InputError, match="ignores `tools`: describe them in the system message"):
        acting(NO_TOOLS).chat(AGENT[:2], tools=TOOLS)
    assert acting(NO_TOOLS).chat([AGENT[1], AGENT[3]], max_new_tokens=1).messages[1].role == "tool"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tool_calls": "read"}, "tool_calls of message 0 must be a list"),
        ({"tool_calls": [{"function": {}}]}, "a tool call of message 0 must be like"),
        ({"tool_calls": [{"name": "f", "arguments": "{"}]}, "are not JSON"),
        ({"tool_calls": [{"name": "f", "arguments": "[1]"}]}, "must be a mapping"),
        ({"content": None}, "must be text"),
        ({"name": 3}, "name of message 0 must be text"),
    ],
)
def test_bad_calls_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        check_messages([{"role": "user", "content": "Hi"} | change])


def test_bad_tools_are_refused() -> None:
    for tools in ({"a": 1}, "read", [3]):
        with pytest.raises(InputError, match="`tools` must be a list of definitions"):
            check_tools(tools)
    with pytest.raises(InputError, match="`tools` are for a chat"):
        explain(acting(), "Hello", tools=TOOLS)
    with pytest.raises(InputError, match="unit 'message' is for a chat"):
        explain(acting(), "Hello", units="message")


def test_a_file_has_messages_or_messages_and_tools(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text(json.dumps({"messages": AGENT, "tools": TOOLS}))
    messages, tools = load_messages(path)
    assert (messages, list(tools)) == (check_messages(AGENT), TOOLS)
    path.write_text(json.dumps({"tools": TOOLS}))
    with pytest.raises(FileError, match='"messages"'):
        load_messages(path)
