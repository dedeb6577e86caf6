"""Explanations made by hand: the views need nothing but the data."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from reagent.explanation import Cost, Explanation, Token

PROMPT = (
    "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). "
    "She rents a small flat in the capital,"
)
HOSTILE = '</script><script>alert(1)</script><!-- [red]\x1b[31mR\x1b[0m[/red] & "$x_{" \u2028\u202e\ud83d'


def tokens(text: str) -> list[Token]:
    """Words with the space before them, and single other characters."""
    found = re.finditer(r" ?\w+| ?[^\w\s]|\s", text)
    return [Token((100 + i,), match.group(), match.start(), match.end()) for i, match in enumerate(found)]


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
    """Every token counts 1, the important one 30; the scores are shares of that."""
    sources = tuple(tokens(prompt) if input is None else input)
    said = tuple(tokens(completion) if output is None else output)
    said = tuple(Token(t.ids, t.text, t.start, t.end, logprob=math.log(0.547)) for t in said)
    rows = []
    for t in range(len(said)):
        context = sources + said[:t]
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
        "cost": Cost(1280, 9000, 3.21, 1280, 0, 1, (64,) * len(said), tuple(stopped or ["condition"] * len(said))),
    }
    return Explanation(prompt, completion, sources, said, **(fields | changes))  # type: ignore[arg-type]


def contested() -> Explanation:
    """Five tokens; the first two cannot be told apart, the third stands alone, nor can the last two."""
    effects, prompt = (5.5, 5.4, 3.0, 0.4, 0.3), "a b c d e"
    scores = tuple(effect / sum(effects) for effect in effects)
    return replace(make(prompt, "!", stderr=True), scores=(scores,), effects=(effects,), stderr=((0.3,) * 5,))


def byte_pieces() -> Explanation:
    """A character of three byte tokens, and a byte token that holds a space and the start of the next."""
    prompt = "a漢 👋!"
    spans = [(0, 1), (1, 2), (1, 2), (1, 2), (2, 4), (3, 4), (3, 4), (4, 5)]
    cut = [Token((i,), prompt[start:end], start, end) for i, (start, end) in enumerate(spans)]
    return make(prompt, " ok", input=[Token((1,), "<s>", 0, 0, protected=True), *cut], important="漢")


def hostile() -> Explanation:
    """Text that tries to be script, markup, a formula or an escape sequence, everywhere at once."""
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
    )


def formula() -> Explanation:
    """Dollar signs around what is no formula: whoever tries to set it fails."""
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
        "pieces": byte_pieces(),
        "hostile": hostile(),
        "formula": formula(),
        "scripts": make("שלום\n\n\tمرحبا بالعالم 👩‍🚀 e\u0301 \u0301 \u200d漢字\r\n", " 👋\n أهلا"),
        "long token": make("x" * 300 + " y", " " + "z" * 300),
        "long": make(" ".join(f"w{i}" for i in range(500)), " a b c d e f g h i j", important=" w250"),
    }
