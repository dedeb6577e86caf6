"""Odd prompts across scripts, control tokens and chats: a valid explanation, or one clear line."""

import numpy as np
import pytest

from hostile.prompt_attacks import ATTACKS


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("seed", range(2))
def test_odd_texts_end_in_an_explanation_or_in_one_line(name: str, seed: int) -> None:
    ATTACKS[name](np.random.default_rng(seed))
