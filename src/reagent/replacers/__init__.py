"""What may stand in a token's place.

proposals.py         the table that every replacer fills, and drawing from it
masked_lm.py         `roberta`: the fills of a masked language model, and which of them count
masked_network.py    the masked language model itself
part_of_speech.py    `pos`: tokens of the same part of speech
infill.py            `infill`: the same, judged by what follows
self_predictions.py  `self`: the explained model's own predictions
uniform.py           `random`: any ordinary token
vocabulary.py        the explained model's tokens as text
"""

from typing import Any

from reagent.errors import UnknownNameError
from reagent.models._transformers import is_local
from reagent.models.base import Model
from reagent.replacers.base import Proposals, Replacer
from reagent.replacers.infill import InfillReplacer
from reagent.replacers.masked_lm import MaskedLMReplacer
from reagent.replacers.pos import PartOfSpeechReplacer
from reagent.replacers.self_lm import SelfReplacer
from reagent.replacers.uniform import UniformReplacer
from reagent.validation import with_options

# id → (the replacer with its default options, what it is in one line)
REPLACERS: dict[str, tuple[Replacer, str]] = {
    "roberta": (MaskedLMReplacer(), "what a masked LM (RoBERTa, or any other) finds likely there, as in the paper"),
    "self": (SelfReplacer(), "the explained model's own predictions from the left; one forward pass"),
    "infill": (InfillReplacer(), "the same, reranked by how well the text that follows fits; short passes"),
    "pos": (PartOfSpeechReplacer(), "any token of the same part of speech, uniformly; no forward pass"),
    "random": (UniformReplacer(), "any printable token of the vocabulary, uniformly; no forward pass"),
}


def automatic(model: Model | None = None) -> str:
    """What `auto` stands for: RoBERTa where its weights are at hand, as in the paper, otherwise `self`.

    A model behind an API stays with itself: its tokens may be pieces of text that no masked LM knows.
    """
    remote = model is not None and str(model.info["backend"]).startswith("http")
    return "roberta" if is_local(MaskedLMReplacer().model) and not remote else "self"


def make_replacer(name: "str | Replacer" = "auto", **options: Any) -> Replacer:
    """A replacer by its id.

    >>> make_replacer("self", candidates=5)
    SelfReplacer(candidates=5, weighted=False)
    """
    if not isinstance(name, str):
        return with_options(name, options, f"replacer {type(name).__name__!r}") if options else name
    chosen = automatic() if name == "auto" else name
    if chosen not in REPLACERS:
        raise UnknownNameError("replacer", name, ["auto", *REPLACERS])
    return with_options(REPLACERS[chosen][0], options, f"replacer {chosen!r}")


__all__ = ["REPLACERS", "Proposals", "Replacer", "automatic", "make_replacer"]
