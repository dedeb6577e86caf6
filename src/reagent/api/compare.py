"""`compare`: the same question to several methods."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reagent.api.explain import check_choices, explain
from reagent.comparison import Comparison
from reagent.errors import InputError
from reagent.methods import Progress, replaces
from reagent.models.base import Model
from reagent.models.load import load_model
from reagent.request import check_prompt

_UNASKED: dict[str, Any] = {
    "unit": "token", "spans": None, "levels": None, "replacer": "auto", "replacer_options": None, "what_if": False,
}  # fmt: skip


def compare(
    model: Model | Any,
    prompt: Any,
    methods: Sequence[str],
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    replacer: str = "auto",
    replacer_options: Mapping[str, Any] | None = None,
    progress: Callable[[str, Progress], None] | None = None,
    **asked: Any,
) -> Comparison:
    """Explain `prompt` by each of `methods`, each an id or, with a preset, `id:preset`.

    `options` are hyperparameters by method, `{"lime": {"samples": 100}}`; everything else is as in `explain`.
    All of them explain the same output: the model's own continuation is the same every time.

    >>> from reagent.testing.scripted import ScriptedModel
    >>> echo = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == [[0, 1, 2]]))
    >>> [why.top(1)[0].token.text for why in compare(echo, "c a b", ["reagent", "occlusion"], max_new_tokens=1)]
    ['c', 'c']
    """
    jobs = check_methods(methods, options, replacer, replacer_options, **asked)
    check_prompt(prompt)
    known = model if hasattr(model, "score") and hasattr(model, "case") else load_model(model)
    found = []
    for name, job in jobs.items():
        report = None if progress is None else _named(progress, name)
        found.append(explain(known, prompt, **job, **asked, progress=report))
    return Comparison(found)


def check_methods(
    methods: Sequence[str],
    options: Mapping[str, Mapping[str, Any]] | None,
    replacer: str,
    replacer_options: Mapping[str, Any] | None,
    **asked: Any,
) -> dict[str, dict[str, Any]]:
    """What each method is called with; everything that can be wrong with the words is found here."""
    if not methods:
        raise InputError("there is nothing to compare: give at least one method")
    if len(set(methods)) < len(methods):
        raise InputError(f"a method is named twice in {', '.join(methods)}: name each once")
    given = dict(options or {})
    jobs = {}
    for name in methods:
        method, _, preset = name.partition(":")
        job: dict[str, Any] = {"method": method, "preset": preset or None}
        own = given.pop(name, None) or given.pop(method, {})
        if replaces(method, preset or None, own):
            job |= {"replacer": replacer, "replacer_options": replacer_options}
        check_choices(**_UNASKED | {key: asked[key] for key in _UNASKED if key in asked} | job, options=own)
        jobs[name] = job | dict(own)
    if given:
        raise InputError(f"options are given for {', '.join(given)}, which is not among the methods to compare")
    return jobs


def _named(progress: Callable[[str, Progress], None], name: str) -> Callable[[Progress], None]:
    return lambda now: progress(name, now)
