"""A dataset of three prompts."""

from reagent.data import Dataset, DatasetInfo, Example


def load_greetings(source: str | None = None) -> Dataset:
    """The prompts; there is nothing to choose by `source`."""
    del source
    examples = [Example(id=f"greeting-{i}", prompt=f"w{i} w1 w2", target=f" w{i}") for i in (3, 4, 5)]
    return Dataset(
        id="greetings",
        source="bundled",
        revision="1",
        licence="CC0-1.0",
        level="token",  # one target for each prompt
        max_new_tokens=1,
        stride=1,
        examples=tuple(examples),
    )


GREETINGS = DatasetInfo("three greetings", "CC0-1.0", "made for this example", load_greetings)
