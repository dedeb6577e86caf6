"""Chats: the template's tokens are protected, messages know their place, and bad ones are refused in one line."""

import copy
import json
from pathlib import Path

import pytest

import tiny
from reagent import explain
from reagent.errors import FileError, InputError
from reagent.models.chat import check_messages, load_messages
from reagent.models.huggingface import HuggingFaceModel

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role not in ('system', 'user', 'assistant') %}"
    "{{ raise_exception('unknown role ' + m.role) }}{% endif %}[{{ m.role }}]\n{{ m.content | trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "My aunt moved to Japan. Where is she?"},
]


def chatting(family: str = "gpt2", template: str | None = TEMPLATE) -> HuggingFaceModel:
    tokenizer = copy.deepcopy(tiny.tokenizer_of(family))
    tokenizer.chat_template = template
    return HuggingFaceModel(tiny.network_of(family), tokenizer, name="tiny")


@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_only_what_was_said_may_be_replaced(family: str) -> None:
    model = chatting(family)
    case = model.chat(ASKED, max_new_tokens=2)
    assert case.prompt.endswith("[assistant]\n")
    assert [(m.role, case.prompt[m.start : m.end]) for m in case.messages] == [(m["role"], m["content"]) for m in ASKED]
    said = "".join(token.text for token in case.input if not token.protected)
    assert "Japan" in said
    assert "Be brief." in said
    assert "[" not in said
    assert "".join(token.text for token in case.input if token.end > token.start) == case.prompt
    starts = [token for token in case.input if token.ids[0] == model.tokenizer.bos_token_id]
    assert len(starts) == 1, "the template writes the start token, and nobody else"


def test_a_given_answer_is_read_as_what_follows_the_template() -> None:
    case = chatting("opt").chat(ASKED, target="She is in Tokyo")
    assert case.completion == "She is in Tokyo"
    assert "".join(token.text for token in case.output) == "She is in Tokyo"
    assert not case.output[0].protected


def test_an_explanation_of_a_chat_scores_the_messages_only() -> None:
    why = explain(chatting(), ASKED, max_new_tokens=2, units="word", probes=24)
    assert [m.role for m in why.messages] == ["system", "user"]
    assert all(score == 0 for token, score in zip(why.input, why.scores[0], strict=True) if token.protected)
    free = [token.text.strip() for token in why.input if not token.protected]
    assert free == ["Be", "brief", ".", "My", "aunt", "moved", "to", "Japan", ".", "Where", "is", "she", "?"]


def test_a_model_without_a_template_says_so() -> None:
    with pytest.raises(InputError, match="'tiny' has no chat template"):
        chatting(template=None).chat(ASKED)


@pytest.mark.parametrize("target", [" She is in Tokyo", "Tokyo  "])
def test_a_target_that_the_template_would_cut_is_refused(target: str) -> None:
    with pytest.raises(InputError, match="would cut the target"):
        chatting().chat(ASKED, target=target)


def test_what_the_template_refuses_is_one_line() -> None:
    with pytest.raises(InputError, match="refuses these messages: unknown role wizard"):
        chatting().chat([{"role": "wizard", "content": "abracadabra"}])


def test_a_template_that_drops_a_message_is_not_explained_as_if_it_were_there() -> None:
    last_only = "{{ messages[-1].content }}"
    with pytest.raises(InputError, match="leaves out or changes the system message"):
        chatting(template=last_only).chat(ASKED)


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "at least one"),
        ("Hello", "list of messages"),
        ([{"role": "user"}], 'must have a "role" and a "content"'),
        ([{"role": "user", "content": 3}], "must be text"),
        ([{"role": "user", "content": " "}], "is empty"),
        ([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}], "`target`"),
    ],
)
def test_bad_messages_are_refused(messages: object, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=complaint):
        check_messages(messages)
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(messages))
    with pytest.raises(FileError, match=complaint):
        load_messages(path)


def test_files_that_are_not_there_or_not_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot read"):
        load_messages(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("[{]")
    with pytest.raises(FileError, match="is not JSON"):
        load_messages(tmp_path / "bad.json")
