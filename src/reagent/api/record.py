"""`record`: a statement about an explanation, with a second run, a counterfactual and hashes of files."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from reagent.api.repeat import repeat
from reagent.errors import EmptyGenerationError, InputError, ReagentError
from reagent.exchange.common_units import align
from reagent.explanation import Explanation
from reagent.methods.base import ProgressCallback
from reagent.models import bundled
from reagent.models.base import Model
from reagent.models.load import load_model
from reagent.statement import (
    Contract,
    Counterfactual,
    Record,
    RecordedFile,
    RecordedUnit,
    Stability,
    explanation_sha256,
)
from reagent.views.comparison import rank_correlation

TOP = 10  # units in a record
COMPARED = 5  # units whose place is compared with the second run
PATTERNS = ("*.safetensors", "*.bin", "*.gguf", "*.json", "*.model", "*.jinja")
INTERVENTIONS = {
    "delete": "A unit is deleted; the rest of the text moves together.",
    "mask": "A unit is hidden by the attention mask; all positions stay.",
    "replace": "A unit is replaced by others that the replacer proposes.",
}
GENERAL_LIMITS = (
    "The record is about this model and this text. It does not say whether the answer is right.",
    "Effects of single units do not add up: units may act together, or replace each other.",
    "Changed texts may be unlike any text that the model was trained on.",
    "The hash shows whether the record was changed, and not who wrote it.",
)


def record(model: Model | Any, explanation: Explanation, *, on_progress: ProgressCallback | None = None) -> Record:
    """A statement of record about an explanation of `model`.

    The method runs once more with the next seed and the options of the explanation, and the model continues the prompt
    without its most important unit.
    """
    if not isinstance(explanation, Explanation):
        raise InputError(f"record needs an Explanation, got a {type(explanation).__name__}")
    loaded: Model = model if hasattr(model, "score") and hasattr(model, "case") else load_model(model)
    limits = [*explanation.warnings]
    second: Explanation | None = None
    try:
        second = repeat(loaded, explanation, explanation.seed + 1, on_progress)
    except InputError as error:
        limits.append(f"The method was not run with a second seed: {error}.")
    files = tuple(hash_files(model_files(loaded)))
    if not files:
        limits.append("The files of the model are not on this machine, so that they have no hash here.")
    first, again = (explanation, None) if second is None else align([explanation, second])
    return Record(
        explanation_sha256=explanation_sha256(explanation),
        prompt=explanation.prompt,
        completion=explanation.completion,
        contract=contract_of(explanation),
        model=dict(loaded.info),
        files=files,
        method=explanation.method,
        replacer=explanation.replacer,
        seed=explanation.seed,
        units=tuple(_units(first, again)),
        stability=None if again is None else _stability(first, again),
        counterfactual=_counterfactual(loaded, explanation),
        limits=(*limits, *GENERAL_LIMITS),
    )


def contract_of(why: Explanation) -> Contract:
    """The five elements of the attribution contract, and the intervention."""
    units = [unit for unit in why.input if not unit.protected]
    protected = len(why.input) - len(units)
    earlier = ", and the output tokens before the explained one" if why.attributes == "context" else ""
    removal = INTERVENTIONS.get(str(why.method.get("removal") or (why.replacer and "replace")), "")
    return Contract(
        explained=_explained(why),
        features=f"{len(units):,} units of the prompt ({why.unit}){earlier}. {protected:,} protected units (special "
        "tokens, the chat template, text outside the chosen parts) cannot have an importance.",
        process="An encoder reads the prompt; the output is generated token by token after it."
        if why.has_separate_output
        else "The output is generated token by token, each from the prompt and the output before it.",
        held_fixed="The weights, the protected units, and the output, which is scored as it stands and not generated "
        "again" + ("." if why.attributes == "context" else "; earlier output tokens are never changed."),
        score=_score(why),
        intervention=removal or f"As defined by the method {why.method.get('id')!r}; no text is removed by reagent.",
    )


def _explained(why: Explanation) -> str:
    if why.target.get("kind") == "contrast":
        return f"Why the model says {why.output[why.focus].text!r} and not {why.target.get('text')!r}."
    if "index" in why.target:
        return f"The phrase {why.output[why.focus].text!r} of the output {why.completion!r}."
    return f"The output {why.completion!r} as a whole ({len(why.output):,} units)."


def _score(why: Explanation) -> str:
    if why.effect_unit not in (None, "nats"):
        return f"What the method measures, in the unit {why.effect_unit!r}."
    if why.target.get("kind") == "contrast":
        return "The log-odds of the token against the other one, in nats."
    return "The log-probability of the explained output, in nats: the sum over its tokens."


def model_files(model: Model) -> Iterator[Path]:
    """The files of a model on this machine."""
    name, revision = str(model.info["id"]), model.info.get("revision")
    path = Path(name)
    if name in bundled.MODELS:
        path = bundled.fetch(name)
    elif not path.exists() and model.info.get("backend", "").startswith("transformers"):
        from huggingface_hub import snapshot_download

        with suppress(Exception):  # not a hub model, or not in the cache
            path = Path(snapshot_download(name, revision=revision, local_files_only=True))
    if path.is_file():
        yield path
    elif path.is_dir():
        yield from sorted({file for pattern in PATTERNS for file in path.glob(pattern) if file.is_file()})


def hash_files(paths: Iterator[Path]) -> Iterator[RecordedFile]:
    for path in paths:
        with path.open("rb") as file:
            yield RecordedFile(path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _main_row(why: Explanation) -> Any:
    """The row that is recorded: that of the phrase or contrast, otherwise that of the whole answer."""
    return why[why.focus] if "index" in why.target else why.whole()[0]


def _units(why: Explanation, second: Explanation | None) -> Iterator[RecordedUnit]:
    other = None if second is None else _main_row(second).scores
    for one in (one for one in _main_row(why).top(TOP) if one.score > 0):
        token = one.token
        again = None if other is None else other[one.position]
        yield RecordedUnit(token.text, token.start, token.end, one.score, one.effect, one.stderr, again)


def _stability(why: Explanation, second: Explanation) -> Stability:
    first, again = _main_row(why), _main_row(second)
    free = [i for i, unit in enumerate(first.context) if not unit.protected]
    one, two = [first.scores[i] for i in free], [again.scores[i] for i in free]
    best = [{unit.position for unit in row.top(COMPARED) if unit.score > 0} for row in (first, again)]
    return Stability(
        seed=second.seed,
        rank_correlation=rank_correlation(one, two),
        largest_change=max(abs(a - b) for a, b in zip(one, two, strict=True)),
        shared=len(best[0] & best[1]),
        compared=len(best[0]),
    )


def _counterfactual(model: Model, why: Explanation) -> Counterfactual | None:
    """What the model says without its best unit; None for a chat, or if the model cannot generate."""
    row = _main_row(why)
    best = next((one.position for one in row.top(1) if one.score > 0), None)
    if why.messages or best is None or best >= len(why.input):
        return None
    groups = [group.units for group in row.groups if best in group.units and group.kind == "redundant"]
    together = sorted(i for i in max(groups, key=len, default=(best,)) if i < len(why.input))
    prompt = why.prompt
    for unit in reversed([why.input[i] for i in together]):
        prompt = prompt[: unit.start] + prompt[unit.end :]
    removed = tuple(why.input[i].text for i in together)
    tokens = sum(len(unit.ids) for unit in why.output)
    try:
        return Counterfactual(removed, model.case(prompt, None, tokens).completion) if prompt.strip() else None
    except EmptyGenerationError:
        return Counterfactual(removed, "")
    except ReagentError:
        return None
