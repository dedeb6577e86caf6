"""Control tokens in the text of a user are noticed, shown, and read as text on request."""

import copy
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

import chat_templates
import reagent
import tiny
from hostile.scripted_server import ScriptedServer, running
from reagent.errors import CapabilityError, InputError, UnknownNameError
from reagent.models.http.tokenizers import LocalCodec
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.tokenization import find_control_tokens, read_as_text, tokenize
from reagent.views.html import render_page
from reagent.views.text import Kind, split_into_pieces

END = "</s>"
PROMPT = f"My aunt moved to Japan.{END}She rents a flat"
QUICK: dict[str, Any] = {"max_new_tokens": 1, "probes": 8}


def model_of(family: str = "gpt2", template: str | None = None) -> HuggingFaceModel:
    tokenizer = copy.deepcopy(tiny.tokenizer_of(family))
    tokenizer.chat_template = template
    return HuggingFaceModel(tiny.network_of(family), tokenizer, name="tiny")


@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_as_text_no_token_is_special_and_the_text_is_the_same(family: str) -> None:
    model = model_of(family)
    name = model.tokenizer.eos_token
    prompt = f"My aunt {name} moved{name}{name} to Japan."
    kept, plain = model.case(prompt, " and"), model.without_control_tokens().case(prompt, " and")
    assert len(model.find_control_tokens(kept.input)) == 3
    assert not model.find_control_tokens(plain.input)
    special = [token for token in plain.input if token.ids[0] in model.special_ids]
    assert all(token.start == token.end for token in special)  # only what the tokenizer puts around every text
    assert "".join(token.text for token in plain.input if token.end > token.start) == prompt
    ids = [i for token in plain.input if token.end > token.start for i in token.ids]
    assert model.tokenizer.decode(ids, clean_up_tokenization_spaces=False).strip() == prompt
    assert not any(token.protected for token in plain.input if token.end > token.start)


def test_they_are_reported_once_and_shown(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.WARNING):
        why = reagent.explain(model_of(), f"{PROMPT}{END}", **QUICK)
    (record,) = [record for record in caplog.records if "control token" in record.message]
    assert END in record.message
    assert why.control_tokens == (END,)
    assert any(END in warning for warning in why.warnings)
    special = [piece.text for piece in split_into_pieces(why) if piece.kind is Kind.SPECIAL]
    assert special.count(END) == 2
    assert "control tokens" in render_page(why)
    assert reagent.load(why.save(tmp_path / "why.json")) == why


def test_as_text_nothing_is_reported_and_the_letters_are_scored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        why = reagent.explain(model_of(), PROMPT, control_tokens="text", **QUICK)
    assert not caplog.records
    assert why.control_tokens == ()
    assert all(not token.protected for token in why.input)
    assert why.prompt == PROMPT


def test_in_a_chat_only_the_template_has_control_tokens() -> None:
    template = chat_templates.ZEPHYR  # it ends every message with </s>
    messages = [{"role": "user", "content": f"Hi {END} there"}]
    model = model_of(template=template)
    kept = reagent.explain(model, messages, **QUICK)
    assert kept.control_tokens == (END,)
    assert not reagent.explain(model, [{"role": "user", "content": "Hi there"}], **QUICK).control_tokens
    plain = reagent.explain(model, messages, control_tokens="text", **QUICK)
    (message,) = plain.messages
    special = [token for token in plain.input if token.ids[0] in model.special_ids]
    assert len(special) == 1
    assert special[0].start >= message.end
    assert not plain.control_tokens


def test_a_target_is_text_too() -> None:
    model = model_of()
    assert reagent.explain(model, "My aunt", target=f" moved{END}", probes=8).control_tokens == (END,)
    plain = reagent.explain(model, "My aunt", target=f" moved{END}", probes=8, control_tokens="text")
    assert not any(token.ids[0] in model.special_ids for token in plain.output)
    assert "".join(token.text for token in plain.output) == f" moved{END}"


def test_a_word_that_the_tokenizer_does_not_know_is_no_control_token() -> None:
    codec = LocalCodec(copy.deepcopy(tiny.tokenizer_of("gpt2")))
    codec.tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken("<odd>", special=True)]})
    tokens = tokenize(codec, "a <odd> b")
    (index,) = find_control_tokens(codec, tokens)
    renamed = [*tokens[:index], reagent.Token(tokens[index].ids, " Zyxwv", 1, 7), *tokens[index + 1 :]]
    assert find_control_tokens(codec, renamed) == []
    assert "".join(token.text for token in read_as_text(codec, tokens)) == "a <odd> b"


def test_what_cannot_read_letters_says_so() -> None:
    with pytest.raises(UnknownNameError, match="keep, text"):
        reagent.explain(model_of(), PROMPT, control_tokens="drop")
    from reagent.testing import ScriptedModel

    with pytest.raises(InputError, match="the tokenizer has no other tokens for it"):  # no "<" in its vocabulary
        model_of("gemma").without_control_tokens().case("My aunt <eos> moved", " and")
    scripted = ScriptedModel(["a", "b"], lambda context: 1.0 * (context[:, :1] == [[0, 1]]))
    with pytest.raises(CapabilityError, match="control_tokens='text' needs a model that reads control tokens"):
        reagent.explain(scripted, "a b", control_tokens="text", max_new_tokens=1)
    with running(ScriptedServer(tokenizes=True)) as url, pytest.raises(InputError, match="cannot be read as text"):
        reagent.explain(reagent.load_model(url), "The sun </s> rises", control_tokens="text", max_new_tokens=1)


def test_the_command_line_has_the_option(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from reagent.cli import main

    words = ["explain", PROMPT, "--model", str(tiny_folder), "--max-new-tokens", "1", "--probes", "8", "--json", "-"]
    for how, expected in (("keep", (END,)), ("text", ())):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--control-tokens", how])
        assert not ended.value.code
        shown = capsys.readouterr()
        assert tuple(json.loads(shown.out)["control_tokens"]) == expected
        assert (END in shown.err) == bool(expected)
