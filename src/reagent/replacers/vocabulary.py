"""The explained model's tokens as text: from a piece of text to the one token that spells it, and back."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from reagent.case import Ids, Mask
from reagent.models.base import HasTokenTexts, Model, require


class Vocabulary:
    """What the explained model can spell with one ordinary token; `wanted_by` names the replacer in an error.

    >>> from reagent.testing.scripted import ScriptedModel
    >>> words = Vocabulary(ScriptedModel(["a", "b", "+"], lambda c: np.zeros((len(c), 3))), "replacer 'roberta'")
    >>> words.id_of(" b"), words.id_of("b"), words.text_of(2), words.like(" a", but=[0], least=1).tolist()
    (1, None, ' +', [1])
    """

    def __init__(self, model: Model, wanted_by: str) -> None:
        require(model, HasTokenTexts, wanted_by)
        assert isinstance(model, HasTokenTexts)
        self.ids = model.ordinary_ids
        self.texts = model.ordinary_texts

    def id_of(self, text: str) -> int | None:
        return self._ids.get(text)

    def text_of(self, token: int) -> str | None:
        """None for a token that is not ordinary: a space, a control character, some bytes of a character."""
        return self._texts.get(token)

    def like(self, text: str, but: Sequence[int], least: int) -> Ids:
        """Tokens with the same leading space that are words, or signs if `text` is one; without those of `but`.

        Where there are not `least` of them, all with the same leading space; at last, all.
        """
        space, sign = _kind(text)
        found: Ids = self.ids
        for kind in ((space, sign), (space, None), (None, None)):
            found = np.setdiff1d(self.ids[self._kinds[kind]], but)
            if len(found) >= least:
                break
        return found

    @cached_property
    def _ids(self) -> dict[str, int]:
        # Of two tokens with one spelling the later wins: the other is a byte, which tokenizers list first.
        return {text: int(i) for i, text in zip(self.ids, self.texts, strict=True)}

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {int(i): text for i, text in zip(self.ids, self.texts, strict=True)}

    @cached_property
    def _kinds(self) -> dict[tuple[bool | None, bool | None], Mask]:
        space, sign = (np.array(column) for column in zip(*map(_kind, self.texts), strict=True))
        kinds: dict[tuple[bool | None, bool | None], Mask] = {(None, None): np.ones_like(space)}
        for a in (False, True):
            kinds[a, None] = space == a
            kinds.update({(a, b): (space == a) & (sign == b) for b in (False, True)})
        return kinds


def is_sign(text: str) -> bool:
    """Whether it is neither white space nor has a letter or a digit."""
    return bool(text.strip()) and not any(character.isalnum() for character in text)


def _kind(text: str) -> tuple[bool, bool]:
    return text[:1].isspace(), is_sign(text)
