"""Run the method of an explanation again, with another seed."""

from dataclasses import fields, is_dataclass
from typing import Any

from reagent.api.run import run
from reagent.errors import InputError
from reagent.explanation import Explanation
from reagent.methods.base import ProgressCallback
from reagent.methods.normalization import NORMALIZATIONS
from reagent.models.base import Model
from reagent.request import ExplainRequest, configure_method


def repeat(
    model: Model, explanation: Explanation, seed: int, on_progress: ProgressCallback | None = None
) -> Explanation:
    """The same question to the same method with its recorded options; an InputError if that is not possible."""
    again = run(model, request_of(explanation, seed), on_progress)
    if (again.prompt, again.completion) != (explanation.prompt, explanation.completion):
        raise InputError("the question cannot be asked again from what the explanation has kept of it")
    return again


def request_of(why: Explanation, seed: int) -> ExplainRequest:
    """The request that an explanation answers."""
    if "tool" in why.method:
        raise InputError(f"the explanation was made by {why.method['tool']}")
    kind, focus = why.target.get("kind"), why.output[why.focus].text
    levels = [level.unit for level in why.levels]
    unit: Any = [*levels, why.unit] if levels else why.unit
    places = [(token.start, token.end) for token in why.input if not token.protected]
    replacer = dict(why.replacer or {})
    return ExplainRequest.build(
        [{"role": m.role, "content": why.prompt[m.start : m.end]} for m in why.messages] or why.prompt,
        target=why.completion,
        units=None if why.unit == "span" or (unit == "token" and why.display_unit) else unit,
        prompt_spans=places if why.unit == "span" else None,
        target_span=focus if kind == "span" else None,
        contrast=str(why.target["text"]) if kind == "contrast" else None,
        attribute_target=why.attributes == "context" or None if kind != "tokens" else why.attributes == "context",
        method=str(why.method["id"]),
        preset=why.method.get("preset"),
        options=_options(why),
        replacer=replacer.pop("id", "auto"),
        replacer_options=replacer,
        seed=seed,
    )


def _options(why: Explanation) -> dict[str, Any]:
    """The fewest hyperparameters that give what is recorded, which may describe one or resolve a default."""
    name, preset, described = str(why.method["id"]), why.method.get("preset"), {v: k for k, v in NORMALIZATIONS.items()}
    method, usual = configure_method(name, preset, {}, "auto")
    known: list[str] = [field.name for field in fields(method)] if is_dataclass(method) else []
    given = {key: value for key, value in why.method.items() if key in known and value != usual.get(key)}
    options = {key: described.get(str(value), value) for key, value in given.items() if value is not None}
    for key in list(options):
        fewer = {other: value for other, value in options.items() if other != key}
        if configure_method(name, preset, fewer, "auto")[1] == dict(why.method):
            options = fewer
    return options
