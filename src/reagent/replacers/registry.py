"""All replacers by name: the built-in ones, and those that other packages register as `reagent.replacers`."""

from dataclasses import dataclass
from typing import Any, cast

from reagent.errors import InputError, UnknownNameError
from reagent.models._transformers import is_available_offline
from reagent.models.base import Model, PredictsTokens
from reagent.plugins import find_all, instantiate, load_plugin, plugin_names
from reagent.replacers.base import Replacer
from reagent.replacers.infill import InfillReplacer
from reagent.replacers.masked_lm import MaskedLMReplacer
from reagent.replacers.pos import PartOfSpeechReplacer
from reagent.replacers.self_lm import SelfReplacer
from reagent.replacers.uniform import UniformReplacer
from reagent.validation import with_options


@dataclass(frozen=True)
class ReplacerInfo:
    """A replacer with its default options, and one line that describes it."""

    replacer: Replacer
    summary: str


REPLACERS: dict[str, ReplacerInfo] = {
    "roberta": ReplacerInfo(
        MaskedLMReplacer(), "the predictions of a masked LM (RoBERTa, or any other), as in the paper"
    ),
    "self": ReplacerInfo(SelfReplacer(), "the explained model's own predictions from the left; one forward pass"),
    "infill": ReplacerInfo(InfillReplacer(), "the same, reranked by how well the text that follows fits; short passes"),
    "pos": ReplacerInfo(PartOfSpeechReplacer(), "any token of the same part of speech, uniformly; no forward pass"),
    "random": ReplacerInfo(UniformReplacer(), "any printable token of the vocabulary, uniformly; no forward pass"),
}


def replacer_names() -> list[str]:
    """The built-in names, then those of installed packages."""
    return [*REPLACERS, *(name for name in plugin_names("replacers") if name not in REPLACERS)]


def find_replacer(name: str) -> ReplacerInfo:
    """Look up a name among the built-in replacers, then among installed packages."""
    if name in REPLACERS:
        return REPLACERS[name]
    plugin = load_plugin("replacers", name)
    if plugin is None:
        raise UnknownNameError("replacer", name, ["auto", *replacer_names()])
    return _describe(plugin, name)


def list_replacers() -> dict[str, ReplacerInfo]:
    """All replacers by name; a plugin that cannot be loaded is left out with a warning."""
    return find_all(replacer_names(), find_replacer)


def make_replacer(replacer: str | Replacer = "auto", **options: Any) -> Replacer:
    """A replacer with the given options; `replacer` is a name or an instance.

    >>> make_replacer("self", candidates=5)
    SelfReplacer(candidates=5, weighted=False)
    >>> make_replacer(SelfReplacer(candidates=5), weighted=True)
    SelfReplacer(candidates=5, weighted=True)
    """
    if isinstance(replacer, str):
        name = choose_automatic() if replacer == "auto" else replacer
        return with_options(find_replacer(name).replacer, options, f"replacer {name!r}")
    instance: Any = instantiate("replacers", getattr(replacer, "__name__", ""), replacer)
    if not _is_instance(instance):
        raise InputError(f"a replacer must be a name or an instance of a replacer, got {replacer!r}")
    replacer = cast(Replacer, instance)
    return with_options(replacer, options, f"replacer {replacer.info.get('id', type(replacer).__name__)!r}")


def choose_automatic(model: Model | None = None) -> str:
    """The name that `auto` means: `roberta` if its weights are on this machine, as in the paper, otherwise `self`.

    For a model behind an API it is `self`: its tokens may be pieces of text that a masked LM cannot produce. An
    encoder–decoder predicts no tokens of its source; without `roberta` it is `random`.
    """
    remote = model is not None and str(model.info["backend"]).startswith("http")
    if is_available_offline(MaskedLMReplacer().model) and not remote:
        return "roberta"
    return "self" if model is None or isinstance(model, PredictsTokens) else "random"


def _describe(plugin: Any, name: str) -> ReplacerInfo:
    """The entry of a plugin, which is a class, an instance or a ReplacerInfo."""
    if isinstance(plugin, ReplacerInfo):
        return plugin
    replacer = instantiate("replacers", name, plugin)
    if not _is_instance(replacer):
        raise InputError(
            f"the replacers plugin {name!r} is {plugin!r}: register a replacer class, an instance or a ReplacerInfo"
        )
    lines = (type(replacer).__doc__ or "").strip().splitlines()
    return ReplacerInfo(replacer, lines[0] if lines else type(replacer).__name__)


def _is_instance(candidate: Any) -> bool:
    return isinstance(candidate, Replacer) and not isinstance(candidate, type)
