"""Attribution methods, one file per family.

protocol.py   what a method is given and what it returns
reagent.py    ReAGent as published
reagent_fast.py, effects.py   ReAGent with shared, dealt probes; effects and their errors from them
"""

from dataclasses import dataclass
from typing import Any

from reagent.errors import UnknownNameError
from reagent.methods.protocol import Attribution, Method, Progress, Report
from reagent.methods.reagent import Published
from reagent.methods.reagent_fast import Fast
from reagent.options import with_options


@dataclass(frozen=True)
class MethodEntry:
    """A method as a person finds it in a list; the first preset is the default."""

    summary: str
    needs: str  # from a model: probabilities, gradients, attentions, or nothing
    cost: str  # in forward passes
    presets: dict[str, tuple[Method, str]]
    replaces: bool = True  # whether it needs something to stand in for a unit


METHODS: dict[str, MethodEntry] = {
    "reagent": MethodEntry(
        "replaces tokens and watches how much less likely the target becomes",
        "probabilities",
        "64 to 256 for all targets together (fast); up to 6,000 for each target (paper)",
        {
            "fast": (Fast(), "shared, dealt probes; effects in nats with standard errors; stops when settled"),
            "paper": (Published(), "as published: replace 30 %, keep 30 % in the stopping test, 3 runs of 1,000 steps"),
            "paper-recommended": (Published(ratio=0.1), "the paper's recommended ratio: replace 10 %"),
            "paper-appendix": (Published(keep=5, max_steps=3000), "the paper's appendix: keep 5 tokens, 3,000 steps"),
            "paper-replacement": (Published(max_steps=5000), "the paper's study of replacements: 5,000 steps"),
        },
    ),
}


def make_method(name: str = "reagent", preset: str | None = None, **options: Any) -> tuple[Method, dict[str, Any]]:
    """A method by its id, and its provenance.

    >>> make_method("reagent", "paper", runs=1)[1]["runs"]
    1
    """
    if name not in METHODS:
        raise UnknownNameError("method", name, METHODS)
    presets = METHODS[name].presets
    chosen = preset or next(iter(presets))
    if chosen not in presets:
        raise UnknownNameError(f"preset of method {name!r}", chosen, presets)
    owner = f"preset {chosen!r} of method {name!r}" if len(presets) > 1 else f"method {name!r}"
    method = with_options(presets[chosen][0], options, owner)
    return method, {"id": name, "preset": chosen if len(presets) > 1 else None, **method.info}


__all__ = ["METHODS", "Attribution", "Method", "Progress", "Report", "make_method"]
