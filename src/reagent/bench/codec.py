"""Explanations and evaluations as compressed bytes.

Cells of one example share its text and tokens, which are kept once. Numbers keep five significant digits, errors
two. Only the rows of explained tokens are kept. Evaluations use the unpacked explanation, so that a later
evaluation gives exactly the same numbers.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from reagent.evaluation import Evaluation, Point, Result, Skipped, TargetResult
from reagent.explanation import Explanation

DIGITS, ERROR_DIGITS = 5, 2
_SHARED = ("schema", "prompt", "completion", "input", "output", "model", "target", "unit", "messages")
_ROWS = ("scores", "effects", "stderr", "shapley_values")
_MEASURED = ("effect", "stderr", "single", "total")  # of groups and sufficiency tests
_NUMBERS = ("value", "stderr", "random", "random_stderr")
_IDENTITY = ("version", "created", "prompt", "completion", "model", "method", "replacer", "seed", "target", "unit")
# The compression dictionary: text that nearly every record contains. Stored files depend on every byte of it.
_DICTIONARY = (
    b'"fixed","unasked","unasked","unasked","unasked","flat","settled","unsettled","condition","maximum","start",'
    b'"ratio":0.3,"keep":0.3,"top_k":3,"runs":3,"max_steps":1000,"stop":true,"ahead":32,"scores":"softmax of the '
    b'published sum, mean over runs"},"probes":null,"max_probes":256,"look":64,"ratio":0.1,"top":3,"response":'
    b'"logprob","scores":"positive effects over their sum"},"baseline":"zero embeddings","skipped":[],"settings":'
    b'{"stride":5,"draws":16,"pi":[0.3],"probes":64,"ratio":0.1,"rationale":null,"annotation":{"antecedent":[[],"distractor":[[]]},'
    b'"seed":,"replacer":{"id":"self","candidates":10,"weighted":false}},"cost":{"forward_passes":,"tokens":,'
    b'"requests":0,"censored":0,"seconds":},"model":null,"warnings":[],"results":[["ante","found",true,'
    b'["no_d","found",true,["lds","spearman",true,["lds","pearson",true,["sufficiency","nats",false,'
    b'["sufficiency","hellinger",false,["comprehensiveness","nats",true,["comprehensiveness","hellinger",true,'
    b'["pi_soft_nc","hellinger",true,["pi_soft_ns","hellinger",true,["soft_nc","hellinger",true,["soft_ns","hellinger",'
    b'true,0,0,0,0,[],[[0,[]]],[[0.05,[0.1,[0.2,[0.3,[0.5,0]]],"created":"2026-","level":"sequence","targets":[0,5,10,15],'
    b'"level":"token","targets":[0],{"version":"0.1.0","created":"2026-","method":{"id":"reagent","preset":"paper",'
    b'"replacer":null,"seed":,"effect_unit":"nats","scores":[[0.,"effects":[[-0.,"stderr":null,"stderr":[[0.,'
    b'"levels":[],"what_if":[],"cost":{"forward_passes":,"tokens":,"seconds":0.,"probes":0,"stopping_tests":0,'
    b'"proposals":0,"steps":[0,0,0,0],"stopped":["fixed"],"runs":[[,[],"requests":0,"censored":0,"unlisted":0},"asked":[0,5]}'
)


def pack_explanation(why: Explanation) -> tuple[bytes, bytes]:
    """The part shared with other explanations of the same output, and the rest."""
    data = why.to_dict()
    shared = {name: _compact(data.pop(name)) for name in _SHARED}
    for rows in (data, *data["levels"]):
        for name in _ROWS:
            if rows.get(name):
                rows[name] = [_round_row(row, _digits(name)) for row in rows[name]]
    for entry in (*chain.from_iterable(data["groups"]), *filter(None, data["sufficiency"] or ())):
        entry |= {name: _round(entry[name], _digits(name)) for name in _MEASURED if entry.get(name) is not None}
    explained = explained_rows(why)
    if len(explained) < len(why.output):
        data |= {name: data[name] and [data[name][t] for t in explained] for name in _ROWS}
        data["asked"] = explained
    return pack(shared), pack(data)


def unpack_explanation(shared: bytes, own: bytes) -> Explanation:
    data: dict[str, Any] = unpack(shared) | unpack(own)
    data["input"] = [_token(entry, "protected") for entry in data["input"]]
    data["output"] = [_token(entry, "logprob") for entry in data["output"]]
    if "asked" in data:
        explained = data.pop("asked")
        for name in _ROWS:
            data[name] = data.get(name) and _all_rows(dict(zip(explained, data[name], strict=True)), data, name)
    return Explanation.from_dict(data)


def explained_rows(why: Explanation) -> list[int]:
    """The output tokens that were explained."""
    return [t for t, reason in enumerate(why.cost.stopped) if reason != "unasked"]


def _all_rows(explained: Mapping[int, list[float]], data: Mapping[str, Any], name: str) -> list[list[float]]:
    """All rows; those that were not explained are uniform."""
    protected = [token["protected"] for token in data["input"]]
    rows = []
    for t in range(len(data["output"])):
        free = [0.0 if p else 1.0 for p in protected] + [1.0] * t
        uniform = [value / (sum(free) or 1.0) for value in free]
        rows.append(explained.get(t, uniform if name == "scores" else [0.0] * len(free)))
    return rows


def pack_evaluation(evaluation: Evaluation) -> bytes:
    """Everything that the explanation does not contain; results as lists without names."""
    data = evaluation.to_dict()
    own = {name: data[name] for name in ("version", "created", "level", "targets", "skipped", "settings", "cost")}
    own["model"] = None if data["model"] == data["explanation"]["model"] else data["model"]
    own["warnings"] = [line for line in evaluation.warnings if "was not explained" not in line]
    own["results"] = [
        [
            *_pack_numbers(
                result, ("metric", "measure", "higher_is_better", *_NUMBERS, "draws", "random_draws", "flags")
            ),
            [_pack_numbers(target, ("index", *_NUMBERS, "flags")) for target in result["targets"]],
            [_pack_numbers(point, ("at", *_NUMBERS)) for point in result["curve"]],
        ]
        for result in data["results"]
    ]
    return pack(own)


def unpack_evaluation(data: bytes, why: Explanation) -> Evaluation:
    own = unpack(data)
    whole = why.to_dict()
    return Evaluation(
        explanation={name: whole[name] for name in _IDENTITY},
        model=own["model"] or dict(why.model),
        level=own["level"],
        targets=tuple(own["targets"]),
        results=tuple(_result(*entry) for entry in own["results"]),
        skipped=tuple(Skipped(**entry) for entry in own["skipped"]),
        settings=own["settings"],
        cost=own["cost"],
        warnings=tuple(own["warnings"]),
        version=own["version"],
        created=own["created"],
    )


def _result(
    metric: str, measure: str, better: bool, value: float, stderr: float, random: float, random_stderr: float,
    draws: int, random_draws: int, flags: list[str], targets: list[Any], curve: list[Any],
) -> Result:  # fmt: skip
    return Result(
        metric, measure, better, value, stderr, random, random_stderr, draws, random_draws, tuple(flags),
        tuple(TargetResult(i, *numbers, tuple(flagged)) for i, *numbers, flagged in targets),  # type: ignore[call-arg]
        tuple(Point(*point) for point in curve),
    )  # fmt: skip


def _pack_numbers(entry: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    return [_round(entry[name], _digits(name)) if name in _NUMBERS else entry[name] for name in names]


def pack(data: Any) -> bytes:
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    deflate = zlib.compressobj(9, zdict=_DICTIONARY)
    return deflate.compress(text.encode()) + deflate.flush()


def unpack(data: bytes) -> Any:
    inflate = zlib.decompressobj(zdict=_DICTIONARY)
    text = inflate.decompress(data)
    if not inflate.eof:  # its checksum comes last
        raise ValueError("compressed data end too early")
    return json.loads(text)


def _digits(name: str) -> int:
    return ERROR_DIGITS if name.endswith("stderr") else DIGITS


def _round_row(row: list[float], digits: int) -> list[float]:
    return [_round(value, digits) for value in row]


def _round(value: float, digits: int) -> float:
    """
    >>> _round(0.0123456, 3), _round(5.0, 3)
    (0.0123, 5)
    """
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 10**digits else short


def _compact(value: Any) -> Any:
    """Tokens as lists: ids, text, start, end and the one field that is left."""
    if isinstance(value, list) and value and isinstance(value[0], dict) and "ids" in value[0]:
        return [[t["ids"], t["text"], t["start"], t["end"], t.get("protected", t.get("logprob"))] for t in value]
    return value


def _token(entry: list[Any], last: str) -> dict[str, Any]:
    return dict(zip(("ids", "text", "start", "end", last), entry, strict=True))
