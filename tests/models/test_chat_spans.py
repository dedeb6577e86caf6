"""Every message is located where the template writes it, also if its words are in the template."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import chat_templates as templates
import tiny
from reagent.errors import InputError
from reagent.models.chat import check_messages, check_target, render_chat

TOOLS = [{"type": "function", "function": {"name": "add", "description": "Add a and b.", "parameters": {"a": 1}}}]
IN_TEMPLATES = ["AI", "You", "user", "a", "s", "assistant", "INST", "INST] a", "system", "model", "1", "{", "."]


def tokenizer_with(template: str) -> Any:
    tokenizer = copy.copy(tiny.tokenizer_of("gpt2"))
    tokenizer.chat_template = template
    return tokenizer


def located(template: str, messages: Sequence[Mapping[str, Any]], tools: Any = ()) -> tuple[str, list[Any]]:
    text, rendered = render_chat(tokenizer_with(template), check_messages(messages), "tiny", tools)
    return text, [(m.role, text[m.start : m.end], m.start) for m in rendered]


def turns(*contents: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]


def plain(name: str, content: str) -> str:
    """What the template makes of a content."""
    if name == "upper case":
        return content.strip().upper()
    return json.dumps(content.strip(), ensure_ascii=False)[1:-1] if name == "JSON" else content.strip()


@pytest.mark.parametrize("name", templates.ALL)
@pytest.mark.parametrize("content", IN_TEMPLATES)
def test_words_of_the_template_are_located_where_the_user_said_them(name: str, content: str) -> None:
    """The marker is another message of the same place, which occurs once: both must begin at the same character."""
    _, found = located(templates.ALL[name], turns(content))
    (where,) = [span for span in found if span[0] == "user"]
    text, _ = located(templates.ALL[name], turns("Zyxwv"))
    assert where == ("user", plain(name, content), text.index(plain(name, "Zyxwv")))


@pytest.mark.parametrize("name", templates.ALL)
def test_several_turns_with_repeated_messages(name: str) -> None:
    contents = ["a", "a", "  You \n", "Yes, \"a\" 'b'", "a"]
    messages = turns(*contents)
    if name not in templates.WITHOUT_SYSTEM:
        messages.insert(0, {"role": "system", "content": "a"})
    text, found = located(templates.ALL[name], messages)
    said = sorted((message["role"], plain(name, message["content"])) for message in messages)
    assert sorted((role, part) for role, part, _ in found) == said
    starts = [start for _, _, start in found]
    assert starts == sorted(starts)
    ends = [start + len(part) for _, part, start in found]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    rest = "".join(text[a:b] for a, b in zip([0, *ends], [*starts, len(text)], strict=True))
    empty, _ = located(templates.ALL[name], [{**message, "content": f"Zyxwv{i}"} for i, message in enumerate(messages)])
    for i in range(len(messages)):
        empty = empty.replace(plain(name, f"Zyxwv{i}"), "", 1)
    if not any(edge in text for edge in ("  You", "You \n")):  # the template strips
        assert rest == empty


@pytest.mark.parametrize("name", ["DeepSeek-R1", "Qwen 3"])
def test_of_an_answer_whose_reasoning_is_dropped_the_rest_is_located(name: str) -> None:
    answer = "<think>\na long user story\n</think>\n\nuser a"
    text, found = located(templates.ALL[name], turns("Who?", answer, "a"))
    assert "long" not in text
    assert [part for _, part, _ in found] == ["Who?", "user a", "a"]
    assert text[: found[1][2]].count("user a") == 0


def test_a_message_that_begins_and_ends_with_tags() -> None:
    response = "<tool_response>a</tool_response>"
    _, found = located(templates.QWEN_3, turns("Add.", "<think>\nwhy\n</think>\n\nI add.", response))
    assert [part for _, part, _ in found] == ["Add.", "<think>\nwhy\n</think>\n\nI add.", response]


@pytest.mark.parametrize(
    ("condition", "content"),
    [
        ("m.content.startswith('You are')", "You are a pirate."),
        ("not m.content.endswith('.')", "Hi."),
        ("'/no_think' in m.content", "Be brief. /no_think"),
    ],
)
def test_a_template_that_asks_how_a_message_begins_or_ends(condition: str, content: str) -> None:
    write = "{{ m.role }}: {{ m.content.replace('/no_think', '').rstrip() }}"
    template = f"You are{{% for m in messages %}}\n{write}{{% if {condition} %}}!{{% endif %}}{{% endfor %}}"
    _, found = located(template, turns("Who?", "You", content))
    assert [part.rstrip() for _, part, _ in found] == ["Who?", "You", content.removesuffix(" /no_think")]


def test_arguments_that_a_template_leaves_out() -> None:
    template = (
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}("
        "{% for k, v in c.function.arguments.items() %}{% if v %}{{ k }}={{ v }},{% endif %}{% endfor %}){% endfor %}\n"
        "{% endfor %}"
    )
    for value in (False, None, "", 0):
        call = {"function": {"name": "f", "arguments": {"p": "x", "v": value}}}
        _, found = located(template, [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]},
                                      {"role": "tool", "content": "That is False, None, 0 or false."}])  # fmt: skip
        assert [part for _, part, _ in found] == ["a", "f(p=x", "That is False, None, 0 or false."]


def test_content_like_a_mark() -> None:
    content = "8190275364000000 8190275364 81902753640000018"
    _, found = located(templates.CHATML, turns(content, "819", "8"))
    assert [part for _, part, _ in found] == [content, "819", "8"]


@pytest.mark.parametrize("name", sorted(templates.WITH_TOOLS))
@pytest.mark.parametrize("arguments", [{"a": "add", "b": 1}, {"add": {"name": ["add", "{"]}}, {}, {"a": None}])
def test_calls_and_results_are_located(name: str, arguments: dict[str, Any]) -> None:
    messages = [
        {"role": "user", "content": "add"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": arguments}}]},
        {"role": "tool", "content": 'add "a"'},
    ]
    text, found = located(templates.ALL[name], messages, TOOLS)
    assert [role for role, _, _ in found] == ["user", "assistant", "tool"]
    assert found[0][1] == "add"
    assert text[found[0][2] - 1] == "\n"
    call = json.loads(found[1][1])
    assert (call["name"], call.get("arguments", call.get("parameters"))) == ("add", arguments)
    assert found[2][1].replace("\\", "") == 'add "a"'


def test_a_call_that_is_not_json_ends_with_its_last_argument() -> None:
    template = (
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}("
        "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }},{% endfor %}){% endfor %}\n{% endfor %}"
    )
    call = {"function": {"name": "add", "arguments": {"as": "a", "d1": 1, "on": True}}}
    _, found = located(template, [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]},
                                  {"role": "tool", "content": "1"}])  # fmt: skip
    assert [part for _, part, _ in found] == ["a", "add(as=a,d1=1,on=True", "1"]


@pytest.mark.parametrize(
    ("template", "messages", "complaint"),
    [
        (templates.GEMMA, [{"role": "system", "content": "a"}, *turns("a")], "System role not supported"),
        (templates.MISTRAL, [{"role": "system", "content": "a"}, *turns("a")], "Only user and assistant roles"),
        ("a{{ messages[-1].content }}", [{"role": "system", "content": "a"}, *turns("b")], "leaves out or changes the"),
        ("a{{ messages[0].content * 2 }}", turns("a"), "writes the user message more than once"),
        ("a{{ messages[0].content | length }}{{ messages[0].content }}", turns("a"), "changes the text of the messa"),
        ("a{{ messages[0].content[:1] }}", turns("ab"), "leaves out or changes the"),
    ],
)
def test_what_cannot_be_located_is_one_clear_line(template: str, messages: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        located(template, messages)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "target", "fits"),
    [
        ("ChatML", "AI", True),
        ("ChatML", " AI\n", True),
        ("Llama 3", "AI", True),
        ("Llama 3", "AI\n", False),
        ("upper case", "ai", False),
        ("DeepSeek-R1", "Zyxwv</think>a", False),
        ("Qwen 3", "<think>\nhm\n</think>\n\nParis", True),
    ],
)
def test_a_target_is_compared_with_what_is_written_of_it(name: str, target: str, fits: bool) -> None:
    tokenizer, messages = tokenizer_with(templates.ALL[name]), turns("a AI ai")
    if fits:
        check_target(tokenizer, messages, target, "tiny")
    else:
        with pytest.raises(InputError, match="would cut the target"):
            check_target(tokenizer, messages, target, "tiny")
