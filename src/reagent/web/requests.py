"""From the body of a request to what `reagent.explain` is called with, and what may be asked of this model."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from reagent.errors import CapabilityError, InputError, UnknownNameError
from reagent.methods import Method, find_method, make_method, method_names, uses_replacer
from reagent.models._transformers import is_local
from reagent.models.base import HasChatTemplate, HasTokenTexts, HasVocabulary, Model, PredictsTokens
from reagent.replacers import REPLACERS
from reagent.replacers.masked_lm import MaskedLMReplacer
from reagent.request import LARGEST_SEED, ExplainRequest
from reagent.segmentation import UNITS
from reagent.views.plots import require_matplotlib
from reagent.web.config import Limits

_NEEDS: Mapping[str, tuple[type, ...]] = {
    "roberta": (HasTokenTexts,),
    "self": (PredictsTokens, HasVocabulary),
    "infill": (PredictsTokens, HasVocabulary),
    "pos": (HasTokenTexts,),
    "random": (HasVocabulary,),
}


class Message(BaseModel):
    """One message of a chat."""

    model_config = ConfigDict(extra="forbid", strict=True)

    role: str = Field(examples=["user"])
    content: str = Field(examples=["What is the capital of France?"])


class Question(BaseModel):
    """What to explain: a prompt or a chat, and what is asked about it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    prompt: str | None = Field(None, description="Plain text; or give messages.", examples=["The capital of France is"])
    messages: list[Message] | None = Field(None, description="A chat, with the model's own template.")
    target: str | None = Field(None, description="Explain this continuation instead of the model's own.")
    max_new_tokens: int | None = Field(None, ge=1, description="How many tokens to generate and explain (10).")
    contrast: str | None = Field(None, description="Explain why the model did not say this instead.")
    unit: str | None = Field(None, description="token, word, sentence or paragraph.")
    method: str | None = Field(None, description="One of the methods of /api/options.")
    preset: str | None = Field(None, description="One of the method's presets.")
    replacer: str | None = Field(None, description="One of the replacers of /api/options.")
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 0
    probes: int | None = Field(None, ge=1, description="Preset fast: exactly so many probes, no early stop.")


class Questions:
    """What may be asked of one model."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.methods = {name: _presets(name, model) for name in method_names()}
        self.replacers = ["auto", *(name for name in REPLACERS if _can_replace(name, model))]

    def options(self) -> dict[str, Any]:
        """What the page offers."""
        limits = self.limits
        return {
            "models": [self.model.info["id"]],
            "methods": [_describe(name, presets) for name, presets in self.methods.items() if presets],
            "replacers": [{"id": name, "summary": _about(name)} for name in self.replacers],
            "units": ["token", *UNITS],
            "chat": _chats(self.model),
            "png": _draws(),
            "limits": {name: getattr(limits, name) for name in ("prompt", "new_tokens", "probes", "queue", "seconds")},
        }

    def build(self, question: Question) -> ExplainRequest:
        """The checked request; what this service does not allow is an error before the job is queued."""
        self._check_amounts(question.max_new_tokens or 10, question.probes)
        replacer = question.replacer or "auto"
        request = ExplainRequest.build(
            self._prompt(question),
            target=question.target,
            max_new_tokens=question.max_new_tokens or 10,
            contrast=question.contrast,
            units=question.unit or "token",
            method=question.method or "reagent",
            preset=question.preset,
            options={} if question.probes is None else {"probes": question.probes},
            replacer=replacer,
            seed=question.seed,
        )
        request.check_model(self.model)
        if replacer not in self.replacers:
            raise UnknownNameError("replacer of this service", replacer, self.replacers)
        if question.messages is not None and not _chats(self.model):
            raise CapabilityError(f"{self.model.info['id']!r} has no chat template: give a plain prompt")
        return request

    def _prompt(self, question: Question) -> Any:
        if (question.prompt is None) == (question.messages is None):
            raise InputError("give a prompt or messages: one of the two, not both")
        given: Any = question.prompt
        texts = [question.prompt or "", question.target or "", question.contrast or ""]
        if question.messages is not None:
            given = [message.model_dump() for message in question.messages]
            texts += [message.role + message.content for message in question.messages]
        length = sum(len(text) for text in texts)
        if length > self.limits.prompt:
            raise HTTPException(
                413, f"the prompt has {length:,} characters, and this service takes at most {self.limits.prompt:,}"
            )
        return given

    def _check_amounts(self, new_tokens: int, probes: int | None) -> None:
        for name, value, most in (
            ("max_new_tokens", new_tokens, self.limits.new_tokens),
            ("probes", probes or 0, self.limits.probes),
        ):
            if value > most:
                raise InputError(f"{name} must be at most {most} at this service, got {value}")


def _describe(name: str, presets: Sequence[str]) -> dict[str, Any]:
    """A method as the page offers it."""
    info = find_method(name)
    first = info.presets[presets[0]].method
    return {
        "id": name,
        "summary": info.summary,
        "cost": info.cost,
        "presets": [{"id": preset, "summary": info.presets[preset].summary} for preset in presets],
        "replaces": uses_replacer(first),
        "probes": hasattr(first, "probes"),
    }


def _presets(name: str, model: Model) -> list[str]:
    """The presets of a method that this model can do."""
    return [preset for preset in find_method(name).presets if _can(make_method(name, preset)[0], model)]


def _can(method: Method, model: Model) -> bool:
    try:
        if hasattr(method, "check"):
            method.check(model)
    except CapabilityError:
        return False
    return True


def _can_replace(name: str, model: Model) -> bool:
    if name == "roberta" and not is_local(MaskedLMReplacer().model):
        return False  # nobody wants to wait for half a gigabyte behind a click
    return all(isinstance(model, capability) for capability in _NEEDS[name])


def _about(replacer: str) -> str:
    return "the best one at hand" if replacer == "auto" else REPLACERS[replacer][1]


def _chats(model: Model) -> bool:
    tokenizer = getattr(model, "tokenizer", None)
    return isinstance(model, HasChatTemplate) and (tokenizer is None or bool(getattr(tokenizer, "chat_template", None)))


def _draws() -> bool:
    try:
        require_matplotlib()
    except InputError:
        return False
    return True
