"""An explanation, several to compare, or citations, as a pandas table."""

from typing import TYPE_CHECKING, Any

from reagent.citations import Citations
from reagent.comparison import Comparison
from reagent.data_summary import Summary
from reagent.errors import InputError
from reagent.explanation import Explanation
from reagent.prompt_study import Study
from reagent.views.groups import group_letters

if TYPE_CHECKING:
    import pandas


def comparison_to_frame(comparison: Comparison) -> "pandas.DataFrame":
    """Put the tables of all explanations one below the other, with the name of the method in the first column."""
    pandas = _import_pandas()
    frames = [to_frame(why) for why in comparison]
    for name, frame in zip(comparison.names, frames, strict=True):
        frame.insert(0, "method", pandas.Series([name] * len(frame), dtype=object))
    return pandas.concat(frames, ignore_index=True)


def to_frame(explanation: Explanation) -> "pandas.DataFrame":
    """Make a row for each output token and each unit of its context; values that the method lacks are NaN.

    `group` has the letters of the groups of `explanation.groups[target]` that contain the unit: "a" for the first.
    """
    pandas = _import_pandas()
    inputs, effects, errors = len(explanation.input), explanation.effects, explanation.stderr
    shapley = explanation.shapley_values
    letters = [group_letters(explanation, target) for target in range(len(explanation.output))]
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
            "output": pandas.Series(texts["output"], dtype=object),  # a plain object column allows any character
            "position": pandas.Series([position for _, position, _ in cells], dtype="int64"),
            "text": pandas.Series(texts["text"], dtype=object),
            "part": pandas.Series(["prompt" if i < inputs else "output" for _, i, _ in cells], dtype=object),
            "protected": pandas.Series([unit.protected for _, _, unit in cells], dtype=bool),
            "score": pandas.Series([explanation.scores[t][i] for t, i, _ in cells], dtype="float64"),
            "effect": pandas.Series([effects[t][i] if effects else None for t, i, _ in cells], dtype="float64"),
            "stderr": pandas.Series([errors[t][i] if errors else None for t, i, _ in cells], dtype="float64"),
            "shapley_value": pandas.Series([shapley[t][i] if shapley else None for t, i, _ in cells], dtype="float64"),
            "group": pandas.Series([letters[t].get(i) for t, i, _ in cells], dtype=object),
        }
    )


def citations_to_frame(citations: Citations) -> "pandas.DataFrame":
    """Make a row for each part of the answer and each sentence, the most important first; `part` −1 is the answer."""
    pandas = _import_pandas()
    rows = [
        (number, part, source, citations.sentences[source.index])
        for number, part in ((-1, citations.whole), *enumerate(citations.parts))
        for source in part.sentences
    ]
    return pandas.DataFrame(
        {
            "part": pandas.Series([number for number, *_ in rows], dtype="int64"),
            "answer": pandas.Series([part.text for _, part, _, _ in rows], dtype=object),
            "from_documents": pandas.Series([part.from_documents for _, part, _, _ in rows], dtype=bool),
            "document": pandas.Series([citations.documents[s.document].id for *_, s in rows], dtype=object),
            "sentence": pandas.Series([source.index for _, _, source, _ in rows], dtype="int64"),
            "text": pandas.Series([s.text for *_, s in rows], dtype=object),
            "importance": pandas.Series([source.importance for _, _, source, _ in rows], dtype="float64"),
            "effect": pandas.Series([source.effect for _, _, source, _ in rows], dtype="float64"),
            "stderr": pandas.Series([source.stderr for _, _, source, _ in rows], dtype="float64"),
            "alone": pandas.Series([source.alone for _, _, source, _ in rows], dtype="float64"),
            "needed": pandas.Series(["needed" in source.marks for _, _, source, _ in rows], dtype=bool),
            "sufficient": pandas.Series(["sufficient" in source.marks for _, _, source, _ in rows], dtype=bool),
            "redundant_with": pandas.Series([list(source.redundant_with) for _, _, source, _ in rows], dtype=object),
        }
    )


def study_to_frame(study: Study) -> "pandas.DataFrame":
    """A table with a row for each part of the template."""
    pandas = _import_pandas()
    rows = [
        {
            "part": part.name,
            "kind": part.kind,
            "verdict": part.verdict,
            "effect": part.effect.mean,
            "low": part.effect.low,
            "high": part.effect.high,
            "inputs": part.effect.inputs,
            "matters": part.matters,
            "tokens": part.tokens,
        }
        for part in study.parts
    ]
    return pandas.DataFrame(rows)


def summary_to_frame(summary: Summary) -> "pandas.DataFrame":
    """A table with a row for each word."""
    pandas = _import_pandas()
    rows = [
        {
            summary.unit: word.text,
            "prompts": word.prompts,
            "importance": word.importance,
            "score": word.score,
            "effect": word.effect and word.effect.mean,
            "low": word.effect and word.effect.low,
            "high": word.effect and word.effect.high,
        }
        for word in summary.words
    ]
    return pandas.DataFrame(rows)


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise InputError(
            "a table needs pandas, which is not installed; run: pip install 'reagent-lm[frames]'"
        ) from error
    return pandas
