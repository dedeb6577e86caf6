"""An explanation as the JSON of Inseq, and the reverse. Inseq itself is not needed.

Inseq saves an output as classes with attributes, and tensors as safetensors in base64. The numbers of a decoder-only
model are `target_attributions` [prompt and output, outputs]. Those of an encoder–decoder are `source_attributions`
[prompt, outputs] and, if they were asked for, `target_attributions` [outputs, outputs].
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reagent.atomic_io import atomic_write, read_json
from reagent.case import Floats
from reagent.errors import FileError, InputError
from reagent.exchange.alignment import find_pieces
from reagent.exchange.attributions import Attributions
from reagent.explanation import Explanation, Token

MODULE = "inseq.data.attribution"
LARGEST_FILE = 2**30  # bytes
JOINED = -1  # the id of a token that is several tokens of the model


def to_inseq(explanation: Explanation, path: str | Path | None = None) -> str:
    """The text of a file for `inseq.FeatureAttributionOutput.load`, also written to `path` where one is given.

    The numbers are the effects, or the scores of a method without effects.
    """
    values = explanation.to_numpy("scores" if explanation.effects is None else "effects").T
    inputs, separate = len(explanation.input), explanation.has_separate_output
    source, output = ([_token(unit) for unit in units] for units in (explanation.input, explanation.output))
    target = output if separate else source + output
    start, generated = (
        (0, explanation.completion) if separate else (inputs, explanation.prompt + explanation.completion)
    )
    sees_output = explanation.attributes == "context"
    sequence: dict[str, Any] = {
        "source": source,
        "target": target,
        "source_attributions": _encode(values[:inputs]) if separate else None,
        "target_attributions": _encode(values[inputs:] if separate else values)
        if sees_output or not separate
        else None,
        "step_scores": {},
        "sequence_scores": {},
        "attr_pos_start": start,
        "attr_pos_end": len(target),
    }
    info = {
        "input_texts": [explanation.prompt],
        "generated_texts": [generated],
        "attribution_method": f"reagent {explanation.method.get('id')}",
        "attributed_fn": "logit" if explanation.effect_unit is None else explanation.effect_unit,
        "model_name": explanation.model.get("id"),
        "attr_pos_start": start,
        "attr_pos_end": len(target),
        "attribute_target": sees_output,
        "step_scores": [],
        "exec_time": explanation.cost.seconds,
    }
    sequences = [_instance("CoarseFeatureAttributionSequenceOutput", sequence)]
    data = _instance(
        "FeatureAttributionOutput",
        {"sequence_attributions": sequences, "step_attributions": None, "info": info},
    )
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    if path is not None:
        atomic_write(path, text)
    return text


def from_inseq(model: Any, source: Any, index: int = 0, *, unit: str = "attribution") -> Explanation:
    """The explanation of `model` that one sequence of an output of Inseq is.

    `source` is a file of Inseq, its content as a dictionary, or a FeatureAttributionOutput. Numbers of embeddings are
    aggregated as Inseq shows them: to their norm, and those of layers and heads to their mean.
    """
    if isinstance(source, str | Path):
        source = read_inseq(source)
    return attributions_of(source, index, unit).explain(model)


def attributions_of(source: Any, index: int = 0, unit: str = "attribution") -> Attributions:
    """What one sequence of an output of Inseq, or of the content of its file, says."""
    outer = _attributes(source)
    info, sequences = outer.get("info"), outer.get("sequence_attributions")
    if not isinstance(info, Mapping) or not isinstance(sequences, Sequence) or not sequences:
        raise InputError("from_inseq needs a file of Inseq, or a FeatureAttributionOutput")
    if not isinstance(index, int) or not 0 <= index < len(sequences):
        raise InputError(f"there is no sequence {index!r}: Inseq's output has {len(sequences)}, numbered from 0")
    return _Sequence.of(sequences[index], info, index).attributions(unit)


def read_inseq(path: str | Path) -> Any:
    """The content of a file of Inseq."""
    try:
        size = Path(path).stat().st_size
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    if size > LARGEST_FILE:
        raise FileError(f"{str(path)!r} has {size:,} bytes, at most {LARGEST_FILE:,} are read: save out.aggregate()")
    data = read_json(path, "a file that Inseq has saved, without compression")
    if not is_inseq(data):
        raise FileError(f"{str(path)!r} is not a file of Inseq: save the output with out.save(path)")
    return data


def is_inseq(data: Any) -> bool:
    """Whether the content of a JSON file is an output of Inseq."""
    kind = data.get("__instance_type__") if isinstance(data, Mapping) else None
    return isinstance(kind, list) and kind[:1] == [MODULE]


@dataclass(frozen=True)
class _Sequence:
    """One sequence of Inseq's output."""

    source: list[tuple[str, int]]  # text and id of each token
    target: list[tuple[str, int]]
    from_source: Floats | None
    from_target: Floats | None
    start: int
    end: int
    input_text: str
    generated_text: str
    info: Mapping[str, Any]

    @classmethod
    def of(cls, data: Any, info: Mapping[str, Any], index: int) -> "_Sequence":
        fields = _attributes(data)
        try:
            kind = data["__instance_type__"][1] if isinstance(data, Mapping) else type(data).__name__
            return cls(
                source=[_read_token(token) for token in fields["source"]],
                target=[_read_token(token) for token in fields["target"]],
                from_source=_decode(fields["source_attributions"], kind),
                from_target=_decode(fields["target_attributions"], kind),
                start=int(fields["attr_pos_start"]),
                end=int(fields["attr_pos_end"]),
                input_text=str(info["input_texts"][index]),
                generated_text=str(info["generated_texts"][index]),
                info=info,
            )
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"not a complete output of Inseq: {type(error).__name__}: {error}") from error

    def attributions(self, unit: str) -> Attributions:
        separate = self.from_source is not None
        values = self._separate() if separate else self._joint()
        outputs = self.target[self.start : self.end]
        prompt, completion = self._texts(separate)
        method = str(self.info.get("attribution_method"))
        seconds = self.info.get("exec_time")
        ids = [number for _, number in (*self.source, *outputs)]
        return Attributions(
            method={"id": f"inseq {method}", "preset": None, "tool": "inseq", "model": self.info.get("model_name")},
            prompt=prompt,
            completion=completion,
            inputs=[text for text, _ in self.source],
            outputs=[text for text, _ in outputs],
            values=values,
            unit=unit,
            seconds=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < float("inf") else 0.0,
            ids=None if JOINED in ids or separate else ids,
        )

    def _joint(self) -> Floats:
        """[outputs, inputs + outputs] of a decoder-only model; without numbers of earlier output, [outputs, inputs]."""
        inputs, outputs = self.start, self.end - self.start
        if self.from_target is None or self.from_target.shape[:2] != (len(self.target), outputs) or outputs < 1:
            raise InputError(
                "not a complete output of Inseq: its attributions must have a column for each output token"
            )
        if len(self.source) != inputs:
            raise InputError(
                f"not a complete output of Inseq: {len(self.source)} source tokens are before token {inputs}"
            )
        values = self.from_target.T[:, : self.end]
        return values if np.nan_to_num(np.tril(values[:, inputs:], -1)).any() else values[:, :inputs]

    def _separate(self) -> Floats:
        """The same for an encoder–decoder."""
        assert self.from_source is not None
        inputs, outputs = len(self.source), self.end - self.start
        if self.from_source.shape != (inputs, outputs) or (self.start, self.end) != (0, len(self.target)):
            raise InputError("Inseq's output must explain all output tokens of an encoder–decoder")
        if self.from_target is None:
            return self.from_source.T
        if self.from_target.shape != (outputs, outputs):
            raise InputError(
                "not a complete output of Inseq: its attributions must have a column for each output token"
            )
        return np.concatenate([self.from_source, self.from_target]).T

    def _texts(self, separate: bool) -> tuple[str, str]:
        """The prompt and the explained part of the output."""
        if separate:
            return self.input_text, self.generated_text
        places = find_pieces(self.generated_text, [text for text, _ in self.target])
        middle = max((place[1] for place in places[: self.start] if place), default=0)
        end = max((place[1] for place in places[: self.end] if place), default=0)
        return self.generated_text[:middle], self.generated_text[middle:end]


def _attributes(data: Any) -> Mapping[str, Any]:
    """The fields of an object of Inseq, or of its JSON."""
    inner = data.get("attributes") if isinstance(data, Mapping) else getattr(data, "__dict__", None)
    return inner if isinstance(inner, Mapping) else {}


def _read_token(token: Any) -> tuple[str, int]:
    fields = _attributes(token)
    return str(fields["token"]), int(fields["id"])


def _decode(tensor: Any, kind: str) -> Floats | None:
    """A tensor, aggregated to two dimensions as the classes of Inseq do it."""
    if tensor is None:
        return None
    values = _read_tensor(tensor) if isinstance(tensor, str) else tensor.detach().cpu().double().numpy()
    if values.ndim < 2:
        raise InputError(f"attributions of Inseq must have two dimensions or more, got {values.ndim}")
    rest = tuple(range(2, values.ndim))
    if not rest:
        return np.asarray(values)
    if kind.startswith("Granular") and len(rest) == 1:
        return np.asarray(np.linalg.norm(values, axis=2))
    if kind.startswith("MultiDimensional"):
        return np.asarray(values.mean(axis=rest))
    raise InputError(f"attributions of {values.ndim} dimensions must be aggregated: save out.aggregate()")


def _read_tensor(text: str) -> Floats:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensor = load(base64.b64decode(text, validate=True))["attribution"]
        return np.asarray(tensor, dtype=np.float64)
    except (SafetensorError, binascii.Error, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"a tensor of Inseq's output cannot be read ({reason}): save it as float32") from error


def _encode(values: Floats) -> str:
    from safetensors.numpy import save

    return base64.b64encode(save({"attribution": np.ascontiguousarray(values, dtype=np.float32)})).decode()


def _token(unit: Token) -> dict[str, Any]:
    fields = {"token": unit.text, "id": unit.ids[0] if len(unit.ids) == 1 else JOINED}
    return {"__instance_type__": ["inseq.utils.typing", "TokenWithId"], "attributes": fields}


def _instance(kind: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"__instance_type__": [MODULE, kind], "attributes": attributes}
