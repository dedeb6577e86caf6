"""Which examples a model gets."""

import numpy as np

from reagent.case import Case
from reagent.data import Dataset, Example, filter_examples
from reagent.errors import EmptyGenerationError
from reagent.testing.scripted import ScriptedModel


class Reticent(ScriptedModel):
    """Says nothing after a prompt that ends in "b"."""

    def __init__(self) -> None:
        super().__init__(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == np.arange(3)))

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        if target is None and prompt.endswith("b"):
            raise EmptyGenerationError
        return super().case(prompt, target, max_new_tokens)


def dataset(*examples: Example) -> Dataset:
    return Dataset("d", "bundled", "r", "", "sequence", 3, 1, examples)


def test_examples_about_which_a_model_is_silent_are_left_out() -> None:
    data = dataset(*(Example(str(i), prompt) for i, prompt in enumerate(["a b", "a c", "c b", "b a", "x"])))
    kept = [example.id for example in filter_examples(data, Reticent(), None, 0).examples]
    assert kept == ["1", "3", "4"]  # "x" cannot be read, which its cells will say
    two = {example.id for example in filter_examples(data, Reticent(), 2, 0).examples}
    assert len(two) == 2
    assert two < set(kept)


def test_what_has_a_target_is_never_silent() -> None:
    data = dataset(Example("1", "a b", " c"))
    assert len(filter_examples(data, Reticent(), None, 0)) == 1
