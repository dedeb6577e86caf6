"""Hand-written explanations for the tests of the views."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from reagent.explanation import (
    Answer,
    Cost,
    Explanation,
    Group,
    Level,
    Message,
    Sufficiency,
    Token,
    WhatIf,
    WholeAnswer,
)
from reagent.segmentation import split_paragraphs, split_sentences

PROMPT = (
    "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). "
    "She rents a small flat in the capital,"
)
HOSTILE = '</script><script>alert(1)</script><!-- [red]\x1b[31mR\x1b[0m[/red] & "$x_{" \u2028\u202e\ud83d.'


def tokens(text: str) -> list[Token]:
    """Words with the space before them, and single other characters."""
    matches = re.finditer(r" ?\w+| ?[^\w\s]|\s", text)
    return [Token((100 + i,), match.group(), match.start(), match.end()) for i, match in enumerate(matches)]


def make(
    prompt: str = PROMPT,
    completion: str = " Tokyo",
    *,
    important: str = " Japan",
    input: Sequence[Token] | None = None,
    output: Sequence[Token] | None = None,
    effects: bool = False,
    stderr: bool = False,
    stopped: Sequence[str] | None = None,
    zero: bool = False,
    **changes: object,
) -> Explanation:
    """Make an explanation in which the important token has 30 times the score of any other."""
    sources = tuple(tokens(prompt) if input is None else input)
    targets = tuple(tokens(completion) if output is None else output)
    targets = tuple(Token(t.ids, t.text, t.start, t.end, logprob=math.log(0.547)) for t in targets)
    rows = []
    for t in range(len(targets)):
        context = sources + targets[:t]
        raw = [0.0 if zero or token.protected else 30.0 if token.text == important else 1.0 for token in context]
        rows.append(tuple(value / (sum(raw) or 1.0) for value in raw))
    fields: dict[str, object] = {
        "scores": tuple(rows),
        "effects": tuple(tuple(4 * value - 0.1 for value in row) for row in rows) if effects or stderr else None,
        "stderr": tuple(tuple(0.0625 for _ in row) for row in rows) if stderr else None,
        "effect_unit": "nats" if effects or stderr else None,
        "model": {"id": "smollm2", "revision": "r1", "dtype": "float32"},
        "method": {"id": "reagent", "preset": "fast"},
        "replacer": {"id": "self"},
        "seed": 7,
        "cost": Cost(
            1280, 9000, 3.21, 1280, 0, 1, (64,) * len(targets), tuple(stopped or ["condition"] * len(targets))
        ),
    }
    return Explanation(prompt=prompt, completion=completion, input=sources, output=targets, **(fields | changes))  # type: ignore[arg-type]


def contested() -> Explanation:
    """Five tokens; the ranks of the first two and of the last two are open, that of the third is settled."""
    effects, prompt = (5.5, 5.4, 3.0, 0.4, 0.3), "a b c d e"
    scores = tuple(effect / sum(effects) for effect in effects)
    return replace(make(prompt, "!", stderr=True), scores=(scores,), effects=(effects,), stderr=((0.3,) * 5,))


def measured_order(stderr: Sequence[float] = (0.0,) * 5) -> Explanation:
    """Five tokens whose scores are a measured order of importance: it differs from the order of their effects."""
    scores, effects = (0.4, 0.25, 0.2, 0.1, 0.05), (5.5, -0.1, 12.0, 0.4, 0.3)
    return replace(contested(), scores=(scores,), effects=(effects,), stderr=(tuple(stderr),))


def units(text: str, spans: Sequence[tuple[int, int]]) -> list[Token]:
    """Larger units, each with an id for every word."""
    return [Token(tuple(range(len(text[a:b].split()))), text[a:b], a, b) for a, b in spans]


def by_sentence() -> Explanation:
    """The prompt cut into sentences; the first counts."""
    cut = units(PROMPT, split_sentences(PROMPT))
    return make(input=cut, important=cut[0].text, unit="sentence", stderr=True)


NEEDLE = "The spare key for the cellar is taped under the piano stool, as it has been since Aunt Mary left."
FILLER = "Nothing in this sentence number {} has to do with the question, and yet it stands here. "


def long_prompt() -> Explanation:
    """Four paragraphs of twenty sentences; one sentence is important and split into tokens."""
    lines = [FILLER.format(i) for i in range(80)]
    lines[50] = NEEDLE + " "
    prompt = "\n\n".join("".join(lines[i : i + 20]).strip() for i in range(0, 80, 20)) + "\n\nThe key is under the"
    coarse, middle = units(prompt, split_paragraphs(prompt)), units(prompt, split_sentences(prompt))
    fine: list[Token] = []
    for unit in middle:
        inside = unit.text.strip() == NEEDLE
        cut = tokens(unit.text) if inside else [replace(unit, start=0, end=len(unit.text))]
        fine += [replace(token, start=token.start + unit.start, end=token.end + unit.start) for token in cut]
    why = make(prompt, " piano stool", input=fine, important=" piano", stderr=True)

    def level(name: str, cut: list[Token]) -> Level:
        important = next(unit.text for unit in cut if NEEDLE in unit.text)
        whole = make(prompt, " piano stool", input=cut, important=important, stderr=True)
        return Level(name, whole.input, whole.scores, whole.effects, whole.stderr)

    return replace(why, levels=(level("paragraph", coarse), level("sentence", middle)))


def chat() -> Explanation:
    """Three messages in a template of protected tokens."""
    turns = [
        ("system", "Answer in one word.\nBe kind."),
        ("user", "My aunt moved to Japan. Where does she rent a flat?"),
        ("assistant", "In the countryside?"),
        ("user", "No, in the capital:"),
    ]
    prompt, messages, cut = "", [], [Token((1,), "<s>", 0, 0, protected=True)]

    def add(text: str, protected: bool) -> None:
        pieces = [Token((2,), text, 0, len(text))] if protected else tokens(text)
        at = len(prompt)
        cut.extend(replace(t, start=t.start + at, end=t.end + at, protected=protected) for t in pieces)

    for role, text in turns:
        for part, protected in ((f"<|im_start|>{role}\n", True), (text, False), ("<|im_end|>\n", True)):
            add(part, protected)
            if not protected:
                messages.append(Message(role, len(prompt), len(prompt) + len(text)))
            prompt += part
    add("<|im_start|>assistant\n", True)
    prompt += "<|im_start|>assistant\n"
    return make(prompt, " Tokyo, dear", input=cut, messages=tuple(messages), stderr=True)


def phrase() -> Explanation:
    """The second output unit is a phrase, explained as a whole."""
    text = " in downtown Tokyo, maybe"
    output = [Token((1,), " in", 0, 3), Token((2, 3), " downtown Tokyo", 3, 18), *tokens(text)[3:]]
    target = {"kind": "span", "index": 1, "text": " downtown Tokyo"}
    return make(completion=text, output=output, target=target, stderr=True)


def contrast() -> Explanation:
    """The second output token in contrast to another one."""
    target = {"kind": "contrast", "index": 1, "text": " Osaka", "logprob": math.log(0.045), "ids": [9]}
    return make(completion=" in Tokyo, maybe", target=target, stderr=True)


def with_what_if() -> Explanation:
    """With counterfactual outputs for Japan and for the capital."""
    japan, capital = (
        next(i for i, t in enumerate(tokens(PROMPT)) if t.text == word) for word in (" Japan", " capital")
    )
    return make(
        completion=" Tokyo, and",
        stderr=True,
        what_if=(
            WhatIf(0, japan, " Italy", 0.004, (Answer(" Rome", 0.31), Answer(" Milan", 0.09))),
            WhatIf(0, capital, "", 0.2, (Answer(" Kyoto", 0.25),)),
            WhatIf(2, japan, " Peru", 0.5, (Answer(" and", 0.5),)),
        ),
    )


def pieces_of_words(**changes: object) -> Explanation:
    """Words of several tokens, shown as words; the answer of two words was measured as a whole."""
    prompt, spans = "Her aunt loves Japan", [(0, 3), (3, 6), (6, 8), (8, 14), (14, 17), (17, 20)]
    cut = [Token((i,), prompt[a:b], a, b) for i, (a, b) in enumerate(spans)]
    output = [Token((7,), " To", 0, 3), Token((8,), "kyo", 3, 6), Token((9,), "!", 6, 7)]
    why = make(prompt, " Tokyo!", input=cut, output=output, important=" Ja", stderr=True)
    scores, effects = (0.1, 0.1, 0.1, 0.0, 0.3, 0.4), (0.2, 0.3, 0.0, -0.5, 2.0, 1.0)
    errors = (0.3, 0.0, 0.0, 0.1, 0.1, 0.1)
    fields = {
        "answer": WholeAnswer(scores, effects, errors, (), None, "settled"),
        "display_unit": "word",
        "attributes": "prompt",
    }
    return replace(why, **(fields | changes))  # type: ignore[arg-type]


TWICE = "My aunt moved to Japan to teach music. People in Japan are friendly. She rents a small flat in the capital,"


def grouped(completion: str = " Tokyo", passed: bool = True, **changes: object) -> Explanation:
    """Either mention of Japan is enough; the capital, the flat and the comma are all needed for every output token."""
    positions = {token.text: i for i, token in enumerate(tokens(TWICE))}
    first = next(i for i, token in enumerate(tokens(TWICE)) if token.text == " Japan")
    capital = tuple(positions[text] for text in (" flat", " capital", ","))
    groups = (
        Group(units=(first, positions[" Japan"]), kind="redundant", effect=7.91, stderr=0.42, single=1.2),
        Group(units=capital, kind="complementary", effect=5.25, stderr=None, single=9.5),
    )
    units = (positions[" Japan"], first)
    test = Sufficiency(units=units, effect=0.62, stderr=0.11, total=8.9, rank=0, passed=True)
    if not passed:
        test = replace(test, effect=5.3, rank=12, passed=False)
    count = len(tokens(completion))
    return make(
        TWICE, completion, stderr=True, **({"groups": (groups,) * count, "sufficiency": (test,) * count} | changes)
    )  # type: ignore[arg-type]


def byte_pieces() -> Explanation:
    """A character of three byte tokens, and a byte token with a space and the start of the next character."""
    prompt = "a漢 👋!"
    spans = [(0, 1), (1, 2), (1, 2), (1, 2), (2, 4), (3, 4), (3, 4), (4, 5)]
    cut = [Token((i,), prompt[start:end], start, end) for i, (start, end) in enumerate(spans)]
    return make(prompt, " ok", input=[Token((1,), "<s>", 0, 0, protected=True), *cut], important="漢")


def hostile() -> Explanation:
    """Text in every field that contains script, markup, a formula and escape sequences."""
    whole = Token((5,), HOSTILE, 0, len(HOSTILE))
    return make(
        HOSTILE,
        HOSTILE,
        input=[whole, Token((6,), HOSTILE, 0, 0)],
        output=[whole, Token((7,), "", len(HOSTILE), len(HOSTILE))],
        stderr=True,
        effect_unit=HOSTILE,
        model={"id": HOSTILE},
        method={"id": HOSTILE, "preset": HOSTILE},
        replacer={"id": HOSTILE},
        stopped=["maximum", "start"],
        unit=HOSTILE,
        target={"kind": "contrast", "index": 1, "text": HOSTILE, "logprob": -1.0},
        messages=(Message(HOSTILE, 0, len(HOSTILE)),),
        what_if=(WhatIf(1, 0, HOSTILE, 0.5, (Answer(HOSTILE, 0.5),)),),
        levels=(Level(HOSTILE, (whole,), ((1.0,), (0.5, 0.5)), None, None),),
        groups=((), (Group(units=(0, 1), kind="redundant", effect=1.0, stderr=None, single=0.5),)),
        sufficiency=(None, Sufficiency(units=(0,), effect=1.0, stderr=None, total=2.0, rank=None, passed=False)),
    )


def by_methods(why: Explanation) -> list[Explanation]:
    """The same explanation by three methods: unchanged, with reversed scores, and with equal scores."""

    def reverse_scores(row: Sequence[float], t: int) -> list[float]:
        free = [value for value, unit in zip(row, why.context(t), strict=True) if not unit.protected]
        return [max(free) + min(free) - value for value in row] if free else list(row)

    def by(method: str, passes: int, raw: Sequence[Sequence[float]]) -> Explanation:
        rows = []
        for t, row in enumerate(raw):
            kept = [0.0 if unit.protected else value for value, unit in zip(row, why.context(t), strict=True)]
            rows.append(tuple(value / (sum(kept) or 1.0) for value in kept))
        cost = replace(why.cost, forward_passes=passes, seconds=passes / 1000)
        return replace(why, method={"id": method, "preset": None}, replacer=None, scores=tuple(rows), cost=cost)

    reverse = by("input-x-gradient", 1, [reverse_scores(row, t) for t, row in enumerate(why.scores)])
    return [why, reverse, by("random", 0, [[1.0] * len(row) for row in why.scores])]


def formula() -> Explanation:
    """Dollar signs around an invalid formula, which fails if it is typeset."""
    broken = "$x_{$"
    whole = [Token((1,), broken, 0, len(broken))]
    return make(broken, broken, input=whole, output=whole, stderr=True, effect_unit=broken, model={"id": broken})


def every_kind() -> dict[str, Explanation]:
    return {
        "one": make(),
        "errors": make(stderr=True),
        "contested": contested(),
        "open": make(completion=" Tokyo, and she loves", stderr=True, stopped=["unsettled", "flat"] * 2 + ["settled"]),
        "five": make(
            completion=" Tokyo, and she loves", effects=True, stopped=["condition", "maximum"] * 2 + ["start"]
        ),
        "single token": make("Hi", "!"),
        "no context": make("", "!"),
        "no output": make(completion=""),
        "zero": make(zero=True),
        "sentences": by_sentence(),
        "coarse to fine": long_prompt(),
        "chat": chat(),
        "phrase": phrase(),
        "contrast": contrast(),
        "what if": with_what_if(),
        "groups": grouped(),
        "insufficient": grouped(passed=False),
        "several with groups": grouped(" Tokyo, and she", passed=False),
        "pieces": byte_pieces(),
        "words": pieces_of_words(),
        "words and levels": replace(
            long_prompt(), answer=WholeAnswer(long_prompt().scores[0], None, None, (), None, "settled")
        ),
        "hostile": hostile(),
        "formula": formula(),
        "scripts": make("שלום\n\n\tمرحبا بالعالم 👩‍🚀 e\u0301 \u0301 \u200d漢字\r\n", " 👋\n أهلا"),
        "long token": make("x" * 300 + " y", " " + "z" * 300),
        "long": make(" ".join(f"w{i}" for i in range(500)), " a b c d e f g h i j", important=" w250"),
    }
