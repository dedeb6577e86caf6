"""Attacks by texts: odd prompts across scripts, control tokens and chats end in a valid explanation or in one line.

`ATTACKS` has a function for each kind of attack, which draws its details from a random generator.
"""

import copy
import io
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from rich.console import Console

import chat_templates
import reagent
import tiny
from hostile.scripted_server import ScriptedServer, running
from hostile.server_attacks import BRISK, assert_one_line
from reagent.errors import ReagentError
from reagent.models.chat import check_messages, render_chat
from reagent.models.huggingface import HuggingFaceModel
from reagent.views.terminal import show

Attack = Callable[[np.random.Generator], None]

RANGES = (
    (0x20, 0x7F), (0x00, 0x20), (0x80, 0x250), (0x300, 0x370), (0x400, 0x500), (0x590, 0x700), (0x900, 0x980),
    (0xE00, 0xE80), (0x1100, 0x1200), (0x2000, 0x2070), (0x20D0, 0x2100), (0x3040, 0x3100), (0x4E00, 0x4F00),
    (0xAC00, 0xAD00), (0xE000, 0xE020), (0xFE00, 0xFE10), (0xFFF0, 0x10000), (0x1F1E6, 0x1F200), (0x1F300, 0x1F700),
    (0x1D400, 0x1D500), (0xE0000, 0xE0080), (0xF0000, 0xF0010), (0x10FFF0, 0x110000),
)  # fmt: skip
PIECES = (
    "the sun", " Japan", "a", "</s>", "<s>", "<|im_end|>", "<|im_start|>user\n", "<bos>", "[INST]", "<think>",
    "</think>", "\r\n", "\n\n", "\t", "   ", "\u200d", "\u00e9", "e\u0301\u0301\u0301", "\u202e", "\ufeff", "\x00",
    "\x1b[31m", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "\ufdfa",
    "\u0915\u094d\u0937\u093f", "{{ messages }}", "{% raise %}", "8190275364000001", "\u27e6x\u27e7", "\u2581the",
    "\u0120the", "'", '"', "\\u0041", "&lt;b&gt;", "</script>", "You", "AI", "user", "assistant", ".", "\u2026",
    "\u3002", "123456789", "0" * 40, "x" * 60, "\U0001f44d\U0001f3fd", "\u2028", "\u0e01\u0e47", "\ud55c\uad6d",
)  # fmt: skip


def odd_text(rng: np.random.Generator, most: int = 12) -> str:
    """A text of pieces and of single characters from all over Unicode, without lone surrogates."""
    parts = []
    for _ in range(int(rng.integers(1, most + 1))):
        if rng.random() < 0.5:
            parts.append(PIECES[rng.integers(len(PIECES))])
        else:
            low, high = RANGES[rng.integers(len(RANGES))]
            parts.append("".join(map(chr, rng.integers(low, high, rng.integers(1, 5)).tolist())))
    return "".join(parts)


@cache
def local_model(family: str, template: str | None = None) -> HuggingFaceModel:
    tokenizer = copy.deepcopy(tiny.tokenizer_of(family))
    tokenizer.chat_template = template
    return HuggingFaceModel(tiny.network_of(family), tokenizer, name=f"tiny {family}")


def assert_holds(ask: Callable[[], reagent.Explanation]) -> reagent.Explanation | None:
    """The explanation is valid and every view shows it, or there is one line."""
    try:
        why = ask()
    except ReagentError as raised:
        assert_one_line(str(raised).replace("\N{REPLACEMENT CHARACTER}", "?"))
        return None
    assert reagent.Explanation.from_dict(json.loads(why.to_json())) == why
    inside = [token for token in why.input if token.start < token.end]
    assert all(token.text == why.prompt[token.start : token.end] for token in inside)
    for row in why.scores:
        assert abs(sum(row) - 1) < 1e-6
    written = io.StringIO()
    show(why, console=Console(file=written, width=80))
    assert "\x1b[31m" not in written.getvalue()
    assert "</script><" not in why.to_html().replace("</script></body>", "")
    return why


QUICK: dict[str, Any] = {"max_new_tokens": 1, "probes": 4}


def odd_prompts(rng: np.random.Generator) -> None:
    model = local_model(str(rng.choice(["gpt2", "opt", "gemma"])))
    prompt = odd_text(rng)
    units = str(rng.choice(["token", "word", "sentence", "paragraph"]))
    method = str(rng.choice(["reagent", "occlusion", "random"]))
    options = {"probes": 4} if method == "reagent" else {}
    assert_holds(lambda: reagent.explain(model, prompt, max_new_tokens=1, units=units, method=method, **options))


def odd_questions(rng: np.random.Generator) -> None:
    """Odd targets, contrasts, phrases and spans."""
    prompt, target = odd_text(rng, 6), odd_text(rng, 4)
    start = int(rng.integers(len(prompt)))
    question: dict[str, Any] = (
        {"target": target},
        {"target": target, "contrast": odd_text(rng, 3)},
        {"target": target, "target_span": target[: int(rng.integers(1, len(target) + 1))]},
        {"target": target, "prompt_spans": [(start, int(rng.integers(start, len(prompt) + 2)))]},
        {"target": target, "attribute_target": True},
    )[rng.integers(5)]
    model = local_model(str(rng.choice(["gpt2", "opt"])))
    assert_holds(lambda: reagent.explain(model, prompt, probes=4, **question))


def control_tokens(rng: np.random.Generator) -> None:
    """Control tokens are reported, or read as text without any special token."""
    model = local_model(str(rng.choice(["gpt2", "opt"])))
    prompt = odd_text(rng, 4) + str(rng.choice(["<s>", "</s>", " </s> ", "</s></s>"])) + odd_text(rng, 4)
    kept = assert_holds(lambda: reagent.explain(model, prompt, **QUICK))
    assert kept is None or kept.control_tokens
    plain = assert_holds(lambda: reagent.explain(model, prompt, control_tokens="text", **QUICK))
    if plain is not None:
        inside = [token for token in plain.input if token.start < token.end]
        assert not any(i in model.special_ids for token in inside for i in token.ids)
        assert not plain.control_tokens


def odd_chats(rng: np.random.Generator) -> None:
    """Each located message begins and ends with its own characters, for every template."""
    name = str(rng.choice(list(chat_templates.ALL)))
    roles = ["user", "assistant"] * 3
    messages = [{"role": role, "content": odd_text(rng, 4)} for role in roles[: 2 * int(rng.integers(0, 3)) + 1]]
    if rng.random() < 0.5:
        messages.insert(0, {"role": "system", "content": odd_text(rng, 4)})
    if rng.random() < 0.3:
        messages[-1]["content"] = messages[0]["content"]
    model = local_model("gpt2", chat_templates.ALL[name])
    try:
        text, located = render_chat(model.tokenizer, check_messages(messages), "tiny")
    except ReagentError as raised:
        assert_one_line(str(raised).replace("\N{REPLACEMENT CHARACTER}", "?"))
    else:
        ends = [0, *(message.end for message in located)]
        assert all(
            end <= message.start <= message.end <= len(text) for end, message in zip(ends, located, strict=False)
        )
        if name == "ChatML":
            assert [text[m.start : m.end] for m in located] == [m["content"].strip() or m["content"] for m in messages]
    assert_holds(lambda: reagent.explain(model, messages, **QUICK))


def odd_prompts_for_a_server(rng: np.random.Generator) -> None:
    kinds: tuple[dict[str, bool], ...] = ({}, {"echo": False}, {"tokenizes": True}, {"echo": False, "chats": True})
    server = ScriptedServer(**kinds[rng.integers(len(kinds))])
    prompt: Any = odd_text(rng)
    if server.chats:
        prompt = [{"role": "user", "content": prompt}]
    with running(server) as url:
        assert_holds(lambda: reagent.explain(reagent.load_model(url, **BRISK), prompt, **QUICK))


def odd_documents(rng: np.random.Generator) -> None:
    documents = [odd_text(rng, 4) for _ in range(int(rng.integers(1, 4)))]
    question, answer = odd_text(rng, 3), odd_text(rng, 3)
    model = local_model("gpt2")
    try:
        citations = reagent.cite(model, question, documents, answer, template="{documents} {question}")
    except ReagentError as raised:
        assert_one_line(str(raised).replace("\N{REPLACEMENT CHARACTER}", "?"))
        return
    assert reagent.Citations.from_dict(json.loads(citations.to_json())) == citations
    citations.to_html()


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        odd_prompts,
        odd_questions,
        control_tokens,
        odd_chats,
        odd_prompts_for_a_server,
        odd_documents,
    )
}
