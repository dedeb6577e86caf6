"""An explanation as captum's LLMAttributionResult, and the reverse."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from reagent.errors import InputError
from reagent.exchange.alignment import join_pieces
from reagent.exchange.attributions import Attributions, completion_of
from reagent.explanation import Explanation
from reagent.segmentation import Span

if TYPE_CHECKING:
    from captum.attr._core.llm_attr import LLMAttributionResult

_MARK = "\ue000{}\ue001"  # in the place of a value of a template
_MARKED = re.compile("\ue000(\\d+)\ue001")


def to_captum(explanation: Explanation) -> "LLMAttributionResult":
    """The units of the prompt: `seq_attr` for the answer as a whole, `token_attr` for each output token.

    The numbers are the effects, or the scores of a method without effects.
    """
    from captum.attr._core.llm_attr import LLMAttributionResult

    name = "scores" if explanation.effects is None else "effects"
    inputs = len(explanation.input)
    logprobs = [unit.logprob for unit in explanation.output]
    return LLMAttributionResult(
        input_tokens=[unit.text for unit in explanation.input],
        output_tokens=[unit.text for unit in explanation.output],
        seq_attr=explanation.whole().to_numpy(name)[0, :inputs].tolist(),
        token_attr=explanation.to_numpy(name)[:, :inputs].tolist(),
        output_probs=None if None in logprobs else np.exp(np.array(logprobs, dtype=float)).tolist(),
    )


def from_captum(
    model: Any,
    result: "LLMAttributionResult",
    *,
    method: str = "captum",
    prompt: str | None = None,
    completion: str | None = None,
    unit: str = "nats",
) -> Explanation:
    """The explanation of `model` that a result of captum's LLMAttribution or LLMGradientAttribution is.

    `method` is the name to show, as "captum ShapleyValues", since the result does not have it. The prompt is by default
    that of the result. What a template has around its values, and skipped tokens, become protected. captum takes the
    first space of an output away, so that `completion` is by default the model's own continuation. Its perturbation
    methods measure log-probabilities by default, and so nats; `unit` names something else.
    """
    if not all(hasattr(result, name) for name in ("input_tokens", "output_tokens", "seq_attr", "token_attr")):
        raise InputError(f"from_captum needs an LLMAttributionResult of captum, got a {type(result).__name__}")
    pieces, places = list(result.input_tokens), None
    source = result.inp
    if hasattr(source, "format_fn") and prompt is None:
        prompt, places = _fill_template(source)
    elif hasattr(source, "inp_tensor") and prompt is None:
        prompt = source.tokenizer.decode(source.inp_tensor[0], skip_special_tokens=True)
    outputs = list(result.output_tokens)
    values = result.token_attr
    if values is None:
        outputs, values = ["".join(outputs)], result.seq_attr[None]
    return Attributions(
        method={"id": method, "preset": None, "tool": "captum", "tool_version": version("captum")},
        prompt=join_pieces(pieces) if prompt is None else prompt,
        completion=completion_of(outputs) if completion is None else completion,
        inputs=pieces,
        outputs=outputs,
        values=values.detach().cpu().double().numpy(),
        unit=unit,
        places=places,
        gaps=bool(getattr(source, "skip_tokens", None)),
    ).explain(model)


def _fill_template(source: Any) -> tuple[str, Sequence[Span]]:
    """The text of a TextTemplateInput, and the places of its values in it."""
    marks = [_MARK.format(i) for i in range(len(source.values))]
    keys = source.dict_keys
    marked = source.format_fn(**dict(zip(keys, marks, strict=True))) if keys else source.format_fn(*marks)
    parts, text = _MARKED.split(marked), ""
    places: dict[int, Span] = {}
    for i, part in enumerate(parts):
        piece = str(source.values[int(part)]) if i % 2 else part
        if i % 2:
            places[int(part)] = len(text), len(text) + len(piece)
        text += piece
    if len(places) < len(marks) or len(parts) != 2 * len(marks) + 1:
        raise InputError("each value must be in captum's template once: give the result of another template")
    return text, [places[i] for i in range(len(marks))]
