"""Attribution methods, one file per family.

protocol.py   what a method is given and what it returns
reagent.py    ReAGent as published
reagent_fast.py, effects.py   ReAGent with shared, dealt probes; effects and their errors from them
lime.py, occlusion.py, shapley.py, greedy.py   other methods that need nothing but probabilities
gradients.py, attention.py    methods that look inside a network
random_scores.py   the baseline
levels.py, what_if.py   any of them coarse to fine; what the model would have said
rows.py, scores.py      what they share: asking in blocks, and from effects to scores
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reagent.errors import UnknownNameError
from reagent.methods.attention import Attention
from reagent.methods.base import Attribution, Method, Progress, ProgressCallback
from reagent.methods.gradients import GradientShap, InputXGradient, IntegratedGradients
from reagent.methods.greedy import Greedy
from reagent.methods.lime import Lime
from reagent.methods.occlusion import Occlusion
from reagent.methods.random import RandomScores
from reagent.methods.reagent_fast import ReagentFast
from reagent.methods.reagent_paper import ReagentPaper
from reagent.methods.shapley import Shapley
from reagent.validation import with_options


@dataclass(frozen=True)
class MethodEntry:
    """A method as a person finds it in a list; the first preset is the default."""

    summary: str
    needs: str  # from a model: probabilities, gradients, attentions, or nothing
    cost: str  # in forward passes
    presets: dict[str, tuple[Method, str]]
    replaces: bool = True  # whether something stands in for a unit


METHODS: dict[str, MethodEntry] = {
    "reagent": MethodEntry(
        "replaces tokens and watches how much less likely the target becomes",
        "probabilities",
        "up to 256 for all targets together (fast); up to 6,000 for each target (paper)",
        {
            "fast": (ReagentFast(), "shared, dealt probes; effects in nats with standard errors; stops when settled"),
            "paper": (
                ReagentPaper(),
                "as published: replace 30 %, keep 30 % in the stopping test, 3 runs of 1,000 steps",
            ),
            "paper-recommended": (ReagentPaper(ratio=0.1), "the paper's recommended ratio: replace 10 %"),
            "paper-appendix": (
                ReagentPaper(keep=5, max_steps=3000),
                "the paper's appendix: keep 5 tokens, 3,000 steps",
            ),
            "paper-replacement": (ReagentPaper(max_steps=5000), "the paper's study of replacements: 5,000 steps"),
        },
    ),
    "input_x_gradient": MethodEntry(
        "multiplies each embedding by the gradient of the target's log-probability",
        "gradients",
        "2 for all targets together (one is a check), and a backward pass for each target",
        {"default": (InputXGradient(), "effects in nats, to first order")},
        replaces=False,
    ),
    "integrated_gradients": MethodEntry(
        "adds up gradients on the way from zero embeddings to the text",
        "gradients",
        "about 10 to 140 for all targets together, and a backward pass from each for each target",
        {
            "default": (
                IntegratedGradients(),
                "steps where the path needs them; effects in nats that add up, or are marked",
            )
        },
        replaces=False,
    ),
    "gradient_shap": MethodEntry(
        "averages gradients at random points between zero embeddings and the text",
        "gradients",
        "65 for all targets together (one is a check), and a backward pass from each for each target",
        {"default": (GradientShap(), "64 points; effects in nats with standard errors")},
        replaces=False,
    ),
    "attention": MethodEntry(
        "looks where the model looks: mean over all layers and heads",
        "attentions",
        "1 for all targets together",
        {"default": (Attention(), "attention of the position that predicts the target")},
        replaces=False,
    ),
    "attention_last": MethodEntry(
        "the same in the last layer only",
        "attentions",
        "1 for all targets together",
        {"default": (Attention("last"), "mean over the heads of the last layer")},
        replaces=False,
    ),
    "attention_rollout": MethodEntry(
        "follows attention through all layers",
        "attentions",
        "1 for all targets together",
        {"default": (Attention("rollout"), "half of each layer's attention is the residual connection")},
        replaces=False,
    ),
    "lime": MethodEntry(
        "fits a linear model to texts in which about half of the units are replaced",
        "probabilities",
        "512 for all targets together",
        {"default": (Lime(), "512 samples, LIME's kernel (width 25) and ridge; effects in nats")},
    ),
    "occlusion": MethodEntry(
        "leaves out one unit at a time",
        "probabilities",
        "4 for each unit, for all targets together (deletion: 1)",
        {
            "replacement": (
                Occlusion(),
                "each unit replaced in turn, mean of 4 draws; effects in nats with standard errors",
            ),
            "deletion": (Occlusion(by="deletion"), "each unit deleted in turn; exact, but the text gets shorter"),
        },
    ),
    "shapley": MethodEntry(
        "replaces units one after another in random orders: what each costs at its turn, on average",
        "probabilities",
        "16 for each unit, for all targets together",
        {"default": (Shapley(), "8 orders, walked both ways; effects in nats with standard errors")},
    ),
    "greedy": MethodEntry(
        "searches the smallest set of units that keeps the prediction",
        "probabilities (masking: a network that takes attention_mask and position_ids)",
        "about 3 × units × length of the rationale, for each target (masking: a third)",
        {
            "replacement": (Greedy(), "all other units replaced, 3 fixed draws"),
            "masking": (
                Greedy(by="masking"),
                "all other units masked, positions kept; the model is not fine-tuned for it",
            ),
            "exhaustive": (Greedy(exhaustive=True), "the smallest set there is, for short contexts"),
        },
    ),
    "random": MethodEntry(
        "scores at random: the baseline",
        "nothing",
        "none",
        {"default": (RandomScores(), "uniform numbers over their sum")},
        replaces=False,
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


def replaces(name: str, preset: str | None = None, options: Mapping[str, Any] | None = None) -> bool:
    """Whether a method, set like this, needs something to stand in for a unit."""
    method, _ = make_method(name, preset, **(options or {}))
    return bool(getattr(method, "replaces", METHODS[name].replaces))


__all__ = ["METHODS", "Attribution", "Method", "Progress", "ProgressCallback", "make_method", "replaces"]
