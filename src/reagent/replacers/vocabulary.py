"""The explained model's tokens as text: from a text to the single token that spells it, and back."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from reagent.case import Ids, Mask
from reagent.models.base import HasTokenTexts, Model, require


class Vocabulary:
    """The ordinary tokens of the explained model and their texts; `needed_by` names the replacer in an error.

    >>> from reagent.testing.scripted import ScriptedModel
    >>> words = Vocabulary(ScriptedModel(["a", "b", "+"], lambda c: np.zeros((len(c), 3))), "replacer 'roberta'")
    >>> words.id_of(" b"), words.id_of("b"), words.text_of(2), words.similar_to(" a", exclude=[0], minimum=1).tolist()
    (1, None, ' +', [1])
    """

    def __init__(self, model: Model, needed_by: str) -> None:
        require(model, HasTokenTexts, needed_by)
        assert isinstance(model, HasTokenTexts)
        self.ids = model.ordinary_ids
        self.texts = model.ordinary_texts

    def id_of(self, text: str) -> int | None:
        return self._ids.get(text)

    def text_of(self, token: int) -> str | None:
        """The text of a token; None if it is not ordinary (a space, a control character, a byte of a character)."""
        return self._texts.get(token)

    def similar_to(self, text: str, exclude: Sequence[int], minimum: int) -> Ids:
        """Tokens with the same leading space as `text` that are words, or symbols if `text` is one.

        If there are fewer than `minimum`, all tokens with the same leading space; if these are too few, all tokens.
        """
        space, symbol = _kind(text)
        tokens: Ids = self.ids
        for kind in ((space, symbol), (space, None), (None, None)):
            tokens = np.setdiff1d(self.ids[self._kinds[kind]], exclude)
            if len(tokens) >= minimum:
                break
        return tokens

    @cached_property
    def _ids(self) -> dict[str, int]:
        # If two tokens have the same text, the later one is used: tokenizers list the tokens of single bytes first.
        return {text: int(i) for i, text in zip(self.ids, self.texts, strict=True)}

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {int(i): text for i, text in zip(self.ids, self.texts, strict=True)}

    @cached_property
    def _kinds(self) -> dict[tuple[bool | None, bool | None], Mask]:
        space, symbol = (np.array(column) for column in zip(*map(_kind, self.texts), strict=True))
        kinds: dict[tuple[bool | None, bool | None], Mask] = {(None, None): np.ones_like(space)}
        for a in (False, True):
            kinds[a, None] = space == a
            kinds.update({(a, b): (space == a) & (symbol == b) for b in (False, True)})
        return kinds


def is_symbol(text: str) -> bool:
    """Whether a text has no letter and no digit, and is not only white space."""
    return bool(text.strip()) and not any(character.isalnum() for character in text)


def _kind(text: str) -> tuple[bool, bool]:
    """Whether a text has a leading space, and whether it is a symbol."""
    return text[:1].isspace(), is_symbol(text)
