"""`compare`: one question, several methods."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reagent.api.run import run
from reagent.comparison import Comparison
from reagent.errors import InputError
from reagent.methods import Method, Progress
from reagent.methods.registry import is_method, uses_replacer
from reagent.models.base import Model
from reagent.models.load import load_model
from reagent.replacers import Replacer
from reagent.request import ExplainRequest, check_mapping, configure_method, is_published
from reagent.segmentation import Span

NamedProgress = Callable[[str, Progress], None]  # the name of the method, and its progress


def compare(
    model: Any,
    prompt: Any,
    methods: Sequence[str | Method],
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    target: str | None = None,
    max_new_tokens: int = 10,
    stride: int = 1,
    units: str | Sequence[str] | None = None,
    prompt_spans: Sequence[Span] | None = None,
    target_span: str | None = None,
    contrast: str | None = None,
    attribute_target: bool | None = None,
    replacer: str | Replacer = "auto",
    replacer_options: Mapping[str, Any] | None = None,
    seed: int | None = 0,
    control_tokens: str = "keep",
    on_progress: NamedProgress | None = None,
) -> Comparison:
    """Explain `prompt` by each of `methods`: ids, ids with a preset as `id:preset`, or instances.

    `options` are hyperparameters by method, `{"lime": {"samples": 100}}`; the other arguments are those of `explain`.
    All methods explain the same output, since the model's own continuation is greedy.

    >>> from reagent.testing import ScriptedModel
    >>> echo = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == [[0, 1, 2]]))
    >>> [why.top(1)[0].token.text for why in compare(echo, "c a b", ["reagent", "occlusion"], max_new_tokens=1)]
    ['c', 'c']
    """
    requests = build_requests(
        prompt,
        methods,
        options=options,
        replacer=replacer,
        replacer_options=replacer_options,
        target=target,
        max_new_tokens=max_new_tokens,
        stride=stride,
        units=units,
        prompt_spans=prompt_spans,
        target_span=target_span,
        contrast=contrast,
        attribute_target=attribute_target,
        seed=seed,
        control_tokens=control_tokens,
    )
    return run_all(load_model(model), requests, on_progress)


def run_all(
    model: Model, requests: Mapping[str, ExplainRequest], on_progress: NamedProgress | None = None
) -> Comparison:
    """Answer each request, in their order."""
    return Comparison(
        tuple(
            run(model, request, None if on_progress is None else _with_name(on_progress, name))
            for name, request in requests.items()
        )
    )


def build_requests(
    prompt: Any,
    methods: Sequence[str | Method],
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    replacer: str | Replacer = "auto",
    replacer_options: Mapping[str, Any] | None = None,
    **question: Any,
) -> dict[str, ExplainRequest]:
    """One checked request for each method, by its name; `question` are further arguments of ExplainRequest.build.

    Methods that replace nothing get no replacer.
    """
    if not isinstance(methods, Sequence) or isinstance(methods, str) or not methods:
        raise InputError("there is nothing to compare: give a list with at least one method")
    if question.get("seed", 0) is None:
        question["seed"] = secrets.randbits(32)  # one seed for all methods
    if question.get("attribute_target") is None and any(is_published(_split(method)[2]) for method in methods):
        question["attribute_target"] = True  # one question for all methods, as the published algorithm asks it
    check_mapping(replacer_options)
    unused = dict(options or {})
    requests: dict[str, ExplainRequest] = {}
    for method in methods:
        name, id_, preset = _split(method)
        if name in requests:
            raise InputError(f"the method {name!r} is given twice: give each once")
        own = unused.pop(name, None) or unused.pop(str(id_), {})
        replacing: dict[str, Any] = {"replacer": replacer, "replacer_options": replacer_options}
        uses = uses_replacer(configure_method(id_, preset, own, replacer)[0])
        requests[name] = ExplainRequest.build(
            prompt, method=id_, preset=preset, options=own, **(replacing if uses else {}), **question
        )
    if unused:
        raise InputError(f"options are given for {', '.join(unused)}, which is not among the methods to compare")
    return requests


def _split(method: str | Method) -> tuple[str, str | Method, str | None]:
    """The name, the id or instance, and the preset of one of the methods to compare."""
    if isinstance(method, str):
        name, _, preset = method.partition(":")
        return method, name, preset or None
    if not is_method(method):
        raise InputError(f"a method is an id or an object with an `attribute` method, got {method!r}")
    return repr(method), method, None


def _with_name(on_progress: NamedProgress, name: str) -> Callable[[Progress], None]:
    return lambda progress: on_progress(name, progress)
