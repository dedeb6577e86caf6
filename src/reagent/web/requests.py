"""From the JSON body of a request to a checked request, and the options that the page offers."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from reagent.api.cite import MAX_NEW_TOKENS, CiteRequest
from reagent.api.estimate import is_server
from reagent.documents import TEMPLATE
from reagent.errors import CapabilityError, InputError, UnknownNameError
from reagent.methods import find_method, list_methods, make_method, uses_replacer
from reagent.models._transformers import is_available_offline
from reagent.models.base import Model, has_chat_template
from reagent.removal import REMOVALS, require_removal
from reagent.replacers import find_replacer, list_replacers
from reagent.replacers.base import required_capabilities
from reagent.replacers.masked_lm import MaskedLMReplacer
from reagent.request import LARGEST_SEED, ExplainRequest
from reagent.segmentation import UNITS
from reagent.web.config import Limits
from reagent.web.results import JobRequest, Kind


class Message(BaseModel):
    """One message of a chat."""

    model_config = ConfigDict(extra="forbid", strict=True)

    role: str = Field(examples=["user"])
    content: str = Field(examples=["What is the capital of France?"])


class ExplainBody(BaseModel):
    """The JSON body of a request. Only names and types are checked here; `ExplainRequest` checks the values."""

    model_config = ConfigDict(extra="forbid", strict=True)

    prompt: str | None = Field(None, description="Plain text; or give messages.", examples=["The capital of France is"])
    messages: list[Message] | None = Field(None, description="A chat, formatted with the template of the model.")
    target: str | None = Field(None, description="Explain this continuation instead of the model's own.")
    max_new_tokens: int | None = Field(
        None, description="Number of tokens to generate and explain (default 10).", json_schema_extra={"minimum": 1}
    )
    target_span: str | None = Field(None, description="Explain this phrase of the output as a whole.")
    answer_span: str | None = Field(
        None, description="The answer in the output; it is traced through the text before it to the prompt."
    )
    contrast: str | None = Field(None, description="Explain why the model did not say this instead.")
    attribute_target: bool | None = Field(
        None,
        description="Explain each output token by everything before it, earlier output included. By default only the "
        "prompt is removed; a contrast, a phrase and the published presets include earlier output.",
    )
    what_if: bool = Field(False, description="Also report what the model says under the strongest replacement.")
    unit: str | None = Field(None, description="token, word, sentence or paragraph.")
    method: str | None = Field(None, description="One of the methods of /api/options.")
    preset: str | None = Field(None, description="One of the presets of the method.")
    removal: str | None = Field(None, description="How units are removed: delete, mask or replace.")
    replacer: str | None = Field(None, description="One of the replacers of /api/options.")
    control_tokens: str = Field(
        "keep", description="Control tokens in the text: keep reads them as such, text reads their letters."
    )
    seed: int = Field(0, json_schema_extra={"minimum": 0, "maximum": LARGEST_SEED})
    probes: int | None = Field(
        None,
        description="Presets fast and leave-one-out: exact number of probes, no early stopping.",
        json_schema_extra={"minimum": 1},
    )


class DocumentBody(BaseModel):
    """One document."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str | None = Field(None, description="A name; by default the number of the document.", examples=["ferry.txt"])
    text: str = Field(examples=["The ferry leaves at nine. Dogs travel free of charge."])


class CiteBody(BaseModel):
    """The JSON body of a question about documents. `CiteRequest` checks the values."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: str = Field(examples=["When does the ferry leave?"])
    documents: list[DocumentBody]
    answer: str | None = Field(None, description="Explain this answer instead of the model's own.")
    template: str | None = Field(None, description="The prompt, with {documents} and {question} once each.")
    max_new_tokens: int | None = Field(
        None,
        description=f"Maximum length of the model's own answer (default {MAX_NEW_TOKENS}).",
        json_schema_extra={"minimum": 1},
    )
    removal: str | None = Field(None, description="How sentences are removed: delete (default), mask or replace.")
    replacer: str | None = Field(None, description="For removal replace: one of the replacers of /api/options.")
    probes: int | None = Field(None, description="At most this number of probes.", json_schema_extra={"minimum": 1})
    seed: int = Field(0, json_schema_extra={"minimum": 0, "maximum": LARGEST_SEED})


class ServiceOptions:
    """The methods, replacers and limits of a service with one model."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.methods = {name: _list_presets(name, model) for name in list_methods()}
        self.replacers = ["auto", *(name for name in list_replacers() if _can_replace(name, model))]

    def describe(self) -> dict[str, Any]:
        """Return the options that the page offers."""
        limits = self.limits
        return {
            "models": [self.model.info["id"]],
            "methods": [
                _describe_method(name, presets, self.model) for name, presets in self.methods.items() if presets
            ],
            "replacers": [{"id": name, "summary": _summarize_replacer(name)} for name in self.replacers],
            "units": ["token", *UNITS],
            "chat": has_chat_template(self.model),
            "server": is_server(self.model),
            "cite": {"removals": [removal for removal in REMOVALS if _can_cite(self.model, removal)]},
            "limits": {name: getattr(limits, name) for name in ("prompt", "new_tokens", "probes", "queue", "seconds")},
        }

    def build_request(self, body: ExplainBody) -> ExplainRequest:
        """Build the checked request. Everything that can be rejected is rejected before the job is queued."""
        max_new_tokens = 10 if body.max_new_tokens is None else body.max_new_tokens
        replacer = body.replacer or "auto"
        self._check_limits(max_new_tokens, body.probes)
        self._check_length("prompt", _texts(body))
        request = ExplainRequest.build(
            _read_prompt(body),
            target=body.target,
            max_new_tokens=max_new_tokens,
            target_span=body.target_span,
            answer_span=body.answer_span,
            contrast=body.contrast,
            attribute_target=body.attribute_target,
            what_if=body.what_if,
            units=body.unit,
            method=body.method or "reagent",
            preset=body.preset,
            options=_read_options(body),
            replacer=replacer,
            control_tokens=body.control_tokens,
            seed=body.seed,
        )
        request.check_model(self.model)
        self._check_replacer(replacer)
        if body.messages is not None and not has_chat_template(self.model):
            raise CapabilityError(f"{self.model.info['id']!r} has no chat template: give a plain prompt")
        return request

    def build_cite_request(self, body: CiteBody) -> CiteRequest:
        """Build the checked request for citations, as `build_request`."""
        default = min(MAX_NEW_TOKENS, self.limits.new_tokens)
        max_new_tokens = default if body.max_new_tokens is None else body.max_new_tokens
        self._check_limits(max_new_tokens, body.probes)
        texts = [text for document in body.documents for text in (document.id, document.text)]
        self._check_length("documents", [body.question, body.answer, body.template, *texts])
        replacer = body.replacer or "auto"
        request = CiteRequest.build(
            body.question,
            [document.model_dump() for document in body.documents],
            answer=body.answer,
            template=TEMPLATE if body.template is None else body.template,
            max_new_tokens=max_new_tokens,
            removal=body.removal or None,
            replacer=replacer,
            probes=body.probes,
            seed=body.seed,
        )
        require_removal(self.model, request.removal, "cite")
        self._check_replacer(replacer)
        return request

    def build_saved(self, kind: Kind, body: Mapping[str, Any]) -> JobRequest:
        """Build the request of a saved job; a body that is not accepted any more is an InputError."""
        try:
            if kind == "citations":
                return self.build_cite_request(CiteBody.model_validate(body))
            return self.build_request(ExplainBody.model_validate(body))
        except ValidationError as error:
            raise InputError(f"its saved body is not valid ({error.error_count()} errors)") from error
        except HTTPException as error:
            raise InputError(str(error.detail)) from error

    def _check_replacer(self, replacer: str) -> None:
        if replacer not in self.replacers:
            raise UnknownNameError("replacer of this service", replacer, self.replacers)

    def _check_limits(self, max_new_tokens: int, probes: int | None) -> None:
        for name, value, limit in (
            ("max_new_tokens", max_new_tokens, self.limits.new_tokens),
            ("probes", probes or 0, self.limits.probes),
        ):
            if value > limit:
                raise InputError(f"{name} must be at most {limit} at this service, got {value}")

    def _check_length(self, noun: str, texts: Sequence[str | None]) -> None:
        length, limit = sum(len(text or "") for text in texts), self.limits.prompt
        if length > limit:
            verb = "have" if noun.endswith("s") else "has"
            raise HTTPException(
                413,
                f"the {noun} {verb} {length:,} characters; this service accepts at most {limit:,} (`--max-prompt`)",
            )


def _texts(body: ExplainBody) -> list[str | None]:
    """All texts of a request, for the limit of its length."""
    messages = [message.role + message.content for message in body.messages or []]
    return [body.prompt, body.target, body.target_span, body.answer_span, body.contrast, *messages]


def _read_prompt(body: ExplainBody) -> Any:
    if (body.prompt is None) == (body.messages is None):
        raise InputError("give a prompt or messages: one of the two, not both")
    return body.prompt if body.messages is None else [message.model_dump() for message in body.messages]


def _read_options(body: ExplainBody) -> dict[str, Any]:
    """The options of the method that the body gives."""
    options = {"probes": body.probes, "removal": body.removal or None}
    return {name: value for name, value in options.items() if value is not None}


def _describe_method(name: str, presets: Sequence[str], model: Model) -> dict[str, Any]:
    info = find_method(name)
    return {
        "id": name,
        "summary": info.summary,
        "cost": info.cost,
        "presets": [_describe_preset(name, preset, model) for preset in presets],
    }


def _describe_preset(name: str, preset: str, model: Model) -> dict[str, Any]:
    method, summary = find_method(name).presets[preset]
    replaces = uses_replacer(method)
    can_replace = replaces or getattr(method, "removal", "") is None  # None: it depends on the replacer
    return {
        "id": preset,
        "summary": summary,
        "replaces": can_replace,
        "what_if": replaces or hasattr(method, "removal"),
        "probes": hasattr(method, "probes"),
        "removal": method.info.get("removal"),
        "removals": _list_removals(name, preset, model) if hasattr(method, "removal") else [],
    }


def _list_removals(name: str, preset: str, model: Model) -> list[str]:
    """List the kinds of removal that this model supports."""
    return [removal for removal in REMOVALS if _supports(model, name, preset, removal=removal)]


def _list_presets(name: str, model: Model) -> list[str]:
    """List the presets of a method that this model supports."""
    return [preset for preset in find_method(name).presets if _supports(model, name, preset)]


def _supports(model: Model, name: str, preset: str, **options: Any) -> bool:
    try:
        method, _ = make_method(name, preset, **options)
        if hasattr(method, "check"):
            method.check(model)
    except InputError:
        return False
    return True


def _can_cite(model: Model, removal: str) -> bool:
    try:
        require_removal(model, removal, "cite")
    except CapabilityError:
        return False
    return True


def _can_replace(name: str, model: Model) -> bool:
    if name == "roberta" and not is_available_offline(MaskedLMReplacer().model):
        return False  # a click must not start a download of half a gigabyte
    return all(isinstance(model, capability) for capability in required_capabilities(find_replacer(name).replacer))


def _summarize_replacer(replacer: str) -> str:
    return "the best available replacer" if replacer == "auto" else find_replacer(replacer).summary
