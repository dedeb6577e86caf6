"""An explanation as `shap.Explanation`, for the plots of the package shap, and the reverse."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from reagent.errors import InputError, UnknownNameError
from reagent.exchange.alignment import is_long_character, join_pieces
from reagent.exchange.attributions import Attributions, completion_of
from reagent.explanation import Explanation

if TYPE_CHECKING:
    import shap

VALUES = ("effects", "scores", "shapley_values")


def to_shap(explanation: Explanation, values: str | None = None, per_token: bool = False) -> "shap.Explanation":
    """The units of the prompt as features, for the answer as a whole or, with `per_token`, for each output token.

    The base value is the log-probability of the output minus the sum of the values, so that shap's plots end at the
    log-probability. Only Shapley values make it the log-probability without the prompt. Scores have the base value 0.
    """
    package = _shap()
    shown = explanation if per_token else explanation.whole()
    name = values or ("scores" if shown.effects is None else "effects")
    if name not in VALUES:
        raise UnknownNameError("kind of values", name, VALUES)
    inputs = len(shown.input)
    rows = shown.to_numpy(name)[:, :inputs]  # raises if the method does not give them
    logprobs = np.array([0.0 if unit.logprob is None else unit.logprob for unit in shown.output])
    texts = [unit.text for unit in shown.input]
    exported = package.Explanation(
        values=rows.T.copy(),
        base_values=np.zeros(len(shown)) if name == "scores" else logprobs - rows.sum(1),
        data=np.array(texts, dtype=object),
        feature_names=texts,
        output_names=[unit.text for unit in shown.output],
    )
    return exported if per_token else exported[:, 0]


def from_shap(
    model: Any,
    values: "shap.Explanation",
    *,
    prompt: str | None = None,
    completion: str | None = None,
    unit: str = "log-odds",
) -> Explanation:
    """The explanation of `model` that one row of a `shap.Explanation` of a text is.

    `prompt` is by default the text of its features. shap takes the spaces of an output away, so that `completion`
    is by default the model's own continuation, with as many tokens. `unit` names what the values measure.
    """
    _require_explanation(values)
    rows = np.asarray(values.values)
    if rows.dtype == object or rows.ndim == 3:
        if len(rows) != 1:
            raise InputError(f"there are {len(rows)} rows: give one of them, as values[0]")
        return from_shap(model, values[0], prompt=prompt, completion=completion, unit=unit)
    pieces = _texts(values.data, values.feature_names)
    single = rows.ndim == 1
    outputs = [values.output_names] if isinstance(values.output_names, str) else _texts(values.output_names)
    completion = completion_of(outputs) if completion is None else completion
    if single and len(outputs) != 1:
        if completion is None:
            raise InputError("the values do not name the output that they explain: give it as `completion`")
        outputs = [completion]
    numbers = _numbers(rows)
    return Attributions(
        method={"id": "shap", "preset": None, "tool": "shap", "tool_version": _version()},
        prompt=_join(pieces) if prompt is None else prompt,
        completion=completion,
        inputs=pieces,
        outputs=outputs,
        values=numbers[None] if single else numbers.T,
        unit=unit,
    ).explain(model)


def _require_explanation(values: Any) -> None:
    if not all(hasattr(values, name) for name in ("values", "data", "output_names")):
        raise InputError(f"from_shap needs a shap.Explanation, got a {type(values).__name__}")


def _texts(*candidates: Any) -> list[str]:
    """The first of the candidates that is a list of texts."""
    for texts in candidates:
        if texts is not None and np.ndim(texts) == 1 and all(isinstance(text, str) for text in texts):
            return [str(text) for text in texts]
    if len(candidates) > 1:
        raise InputError("the features of the shap.Explanation are not the pieces of one text: give values[0]")
    return []


def _join(pieces: Sequence[str]) -> str:
    """The text of the pieces. shap writes a character of several tokens once for each of them."""
    for first, second in pairwise(piece.strip() for piece in pieces):
        if first == second and is_long_character(first.encode("utf-8", "replace")):
            raise InputError(
                f"the feature {first!r} is there twice in a row, perhaps one character of several tokens: give `prompt`"
            )
    return join_pieces(pieces)


def _numbers(rows: Any) -> Any:
    try:
        return np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the values of the shap.Explanation must be numbers: {error}") from error


def _version() -> str | None:
    try:
        return version("shap")
    except PackageNotFoundError:
        return None


def _shap() -> Any:
    try:
        import shap
    except ImportError as error:
        raise InputError(
            "a shap.Explanation needs shap, which is not installed; run: pip install 'reagent-lm[shap]'"
        ) from error
    return shap
