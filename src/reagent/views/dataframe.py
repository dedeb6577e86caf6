"""An explanation as a table of pandas."""

from typing import TYPE_CHECKING

from reagent.errors import InputError
from reagent.explanation import Explanation

if TYPE_CHECKING:
    import pandas


def frame(explanation: Explanation) -> "pandas.DataFrame":
    """A row for each output token and each unit of its context; numbers that the method does not have are missing."""
    try:
        import pandas
    except ImportError as error:
        raise InputError(
            "a table needs pandas, which is not installed; run: pip install 'reagent-lm[frames]'"
        ) from error
    inputs, effects, errors = len(explanation.input), explanation.effects, explanation.stderr
    cells = [
        (target, position, unit) for target in range(len(explanation.output))
        for position, unit in enumerate(explanation.context(target))
    ]  # fmt: skip
    texts = {
        "output": [explanation.output[target].text for target, _, _ in cells],
        "text": [unit.text for _, _, unit in cells],
    }
    return pandas.DataFrame(
        {
            "target": pandas.Series([target for target, _, _ in cells], dtype="int64"),
            "output": pandas.Series(texts["output"], dtype=object),  # plain text: any character is allowed in it
            "position": pandas.Series([position for _, position, _ in cells], dtype="int64"),
            "text": pandas.Series(texts["text"], dtype=object),
            "part": pandas.Series(["prompt" if i < inputs else "output" for _, i, _ in cells], dtype=object),
            "protected": pandas.Series([unit.protected for _, _, unit in cells], dtype=bool),
            "score": pandas.Series([explanation.scores[t][i] for t, i, _ in cells], dtype="float64"),
            "effect": pandas.Series([effects[t][i] if effects else None for t, i, _ in cells], dtype="float64"),
            "stderr": pandas.Series([errors[t][i] if errors else None for t, i, _ in cells], dtype="float64"),
        }
    )
