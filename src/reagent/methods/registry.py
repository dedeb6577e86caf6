"""The methods by their ids, with their presets; methods of installed packages are found by the same functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from reagent.errors import InputError, UnknownNameError
from reagent.methods.attention import Attention
from reagent.methods.attn_lrp import AttnLrp
from reagent.methods.base import Method
from reagent.methods.exact import MAX_UNITS, Exact
from reagent.methods.gradients import GradientShap, InputXGradient, IntegratedGradients
from reagent.methods.greedy import Greedy
from reagent.methods.information_flow import InformationFlow, ValueZeroing
from reagent.methods.leave_one_out import LeaveOneOut
from reagent.methods.lime import Lime
from reagent.methods.occlusion import Occlusion
from reagent.methods.random import RandomScores
from reagent.methods.reagent_fast import ReagentFast
from reagent.methods.reagent_paper import ReagentPaper
from reagent.methods.shapley import Shapley
from reagent.plugins import find_all, instantiate, load_plugin, plugin_names
from reagent.validation import check_name, with_options

LAYERS_NEEDED = "decoder layers in the form of LLaMA or GPT-2"


class Preset(NamedTuple):
    """A method with all its options set, and one line about it."""

    method: Method
    summary: str


@dataclass(frozen=True)
class MethodInfo:
    """A method as it is listed; the first preset is the default."""

    summary: str
    needs: str  # from a model: probabilities, gradients, attentions, or nothing
    cost: str  # in forward passes
    presets: Mapping[str, Preset]
    max_units: int | None = None  # more units are an error; such a method is not part of `all`


METHODS: dict[str, MethodInfo] = {
    "reagent": MethodInfo(
        "removes tokens and measures the drop in log-probability of the target",
        "probabilities",
        "up to 256 for all targets together (fast); up to 6,000 for each target (paper)",
        {
            "fast": Preset(
                ReagentFast(),
                "random removal, single and joint effects; stops when the important units are sufficient",
            ),
            "paper": Preset(
                ReagentPaper(),
                "as published: replace 30 %, keep 30 % in the stopping test, 3 runs of 1,000 steps; a run that stops "
                "before its first step has random scores, and the explanation says so",
            ),
            "paper-recommended": Preset(ReagentPaper(ratio=0.1), "the paper's recommended ratio: replace 10 %"),
            "paper-appendix": Preset(
                ReagentPaper(keep=5, max_steps=3000),
                "the paper's appendix: keep 5 tokens, 3,000 steps",
            ),
            "paper-replacement": Preset(ReagentPaper(max_steps=5000), "the paper's study of replacements: 5,000 steps"),
            "leave-one-out": Preset(
                LeaveOneOut(),
                "one unit replaced at a time, by shared, balanced probes; standard errors; misses repeated facts",
            ),
        },
    ),
    "input_x_gradient": MethodInfo(
        "multiplies each embedding by the gradient of the target's log-probability",
        "gradients",
        "2 for all targets together (one is a check), and a backward pass for each target",
        {"default": Preset(InputXGradient(), "effects in nats, to first order; they may be negative for a cause")},
    ),
    "integrated_gradients": MethodInfo(
        "integrates gradients on the path from zero embeddings to the text",
        "gradients",
        "about 10 to 140 for all targets together, and a backward pass from each for each target",
        {
            "default": Preset(
                IntegratedGradients(),
                "steps where the path needs them; effects in nats that add up, or are marked",
            )
        },
    ),
    "gradient_shap": MethodInfo(
        "averages gradients at random points between zero embeddings and the text",
        "gradients",
        "65 for all targets together (one is a check), and a backward pass from each for each target",
        {"default": Preset(GradientShap(), "64 points; effects in nats with standard errors")},
    ),
    "attention": MethodInfo(
        "attention of the predicting position, averaged over all layers and heads",
        "attentions",
        "1 for all targets together",
        {"default": Preset(Attention(), "where the position that predicts the target looks")},
    ),
    "attention_last": MethodInfo(
        "the same in the last layer only",
        "attentions",
        "1 for all targets together",
        {"default": Preset(Attention("last"), "mean over the heads of the last layer")},
    ),
    "attention_rollout": MethodInfo(
        "follows attention through all layers",
        "attentions",
        "1 for all targets together",
        {"default": Preset(Attention("rollout"), "half of each layer's attention is the residual connection")},
    ),
    "ifr": MethodInfo(
        "information-flow routes: what each token contributes to each layer",
        LAYERS_NEEDED,
        "1 for all targets together",
        {"default": Preset(InformationFlow(), "all paths through attention and residual connections, added up")},
    ),
    "value_zeroing": MethodInfo(
        "how much each layer changes without the value of each token",
        LAYERS_NEEDED,
        "1 for each token, for all targets together",
        {"default": Preset(ValueZeroing(), "cosine distances, mean of all layers")},
    ),
    "attn_lrp": MethodInfo(
        "layer-wise relevance propagation with rules for attention",
        LAYERS_NEEDED,
        "1 for all targets together, and a backward pass for each target",
        {"default": Preset(AttnLrp(), "relevance for the logit; it may be negative")},
    ),
    "lime": MethodInfo(
        "fits a linear model to texts in which about half of the units are removed",
        "probabilities",
        "512 for all targets together",
        {"default": Preset(Lime(), "512 samples, LIME's kernel (width 25) and ridge; effects in nats")},
    ),
    "occlusion": MethodInfo(
        "leaves out one unit at a time",
        "probabilities (masking: a network that takes attention_mask and position_ids)",
        "4 for each unit, for all targets together (deletion, masking: 1)",
        {
            "replacement": Preset(
                Occlusion(),
                "one unit replaced at a time, mean of 4 draws; effects in nats with standard errors",
            ),
            "deletion": Preset(
                Occlusion(removal="delete"), "one unit deleted at a time; exact, but the text gets shorter"
            ),
            "masking": Preset(Occlusion(removal="mask"), "one unit masked at a time; exact, positions kept"),
        },
    ),
    "shapley": MethodInfo(
        "removes units one after another in random orders and averages the marginal effects",
        "probabilities",
        "16 for each unit, for all targets together",
        {"default": Preset(Shapley(), "8 permutations, each also in reverse; effects in nats with standard errors")},
    ),
    "exact": MethodInfo(
        "scores every subset of a few units: exact Shapley values",
        "probabilities",
        "2 to the power of the number of units, for all targets together",
        {"default": Preset(Exact(), "at most 12 units, deleted; scores are Shapley values, effects of single units")},
        max_units=MAX_UNITS,
    ),
    "greedy": MethodInfo(
        "searches the smallest set of units that keeps the prediction",
        "probabilities (masking: a network that takes attention_mask and position_ids)",
        "about 3 × units × length of the rationale, for each target (masking and deletion: a third)",
        {
            "replacement": Preset(Greedy(), "all other units replaced, 3 fixed draws"),
            "masking": Preset(
                Greedy(removal="mask"),
                "all other units masked, positions kept; the model is not fine-tuned for it",
            ),
            "deletion": Preset(Greedy(removal="delete"), "all other units deleted; the text gets shorter"),
            "exhaustive": Preset(Greedy(exhaustive=True), "the smallest set there is, for short contexts"),
        },
    ),
    "random": MethodInfo(
        "scores at random: the baseline",
        "nothing",
        "none",
        {"default": Preset(RandomScores(), "uniform numbers over their sum")},
    ),
}


def method_names() -> list[str]:
    """The ids of all methods: built in, then those of installed packages."""
    return [*METHODS, *(name for name in plugin_names("methods") if name not in METHODS)]


def list_methods() -> dict[str, MethodInfo]:
    """All methods by id; a plugin that cannot be loaded is left out with a warning."""
    return find_all(method_names(), find_method)


def find_method(name: str) -> MethodInfo:
    """A method by its id, built in or from an installed package."""
    if not isinstance(name, str):
        raise InputError(f"a method is an id or an object with an `attribute` method, got {name!r}")
    if name in METHODS:
        return METHODS[name]
    plugin = load_plugin("methods", name)
    if plugin is None:
        raise UnknownNameError("method", name, method_names())
    return plugin if isinstance(plugin, MethodInfo) else _describe(name, plugin)


def make_method(
    method: str | Method = "reagent", preset: str | None = None, /, **options: Any
) -> tuple[Method, dict[str, Any]]:
    """A configured method and its provenance. `method` is an id, or an instance such as `ReagentFast(probes=64)`.

    >>> make_method("reagent", "paper", runs=1)[1]["runs"]
    1
    >>> make_method(ReagentFast(probes=64))[1]["preset"]
    'fast'
    """
    if is_method(method):
        if preset is not None:
            raise InputError(f"preset {preset!r} needs the id of a method, not an instance: leave it out")
        instance: Method = instantiate("methods", type(method).__name__, method)
        instance = with_options(instance, options, f"method {type(instance).__name__!r}")
        name, chosen = _identify(instance)
        return instance, {"id": name, "preset": chosen, **instance.info}
    info = find_method(method)  # type: ignore[arg-type]
    chosen = next(iter(info.presets)) if preset is None else preset
    check_name(f"preset of method {method!r}", chosen, info.presets)
    several = len(info.presets) > 1
    owner = f"preset {chosen!r} of method {method!r}" if several else f"method {method!r}"
    configured = with_options(info.presets[chosen].method, options, owner)
    return configured, {"id": method, "preset": chosen if several else None, **configured.info}


def is_method(method: Any) -> bool:
    """Whether `method` is an instance or a class, not an id."""
    return not isinstance(method, str) and callable(getattr(method, "attribute", None))


def uses_replacer(method: Method) -> bool:
    """Whether a method, configured like this, replaces units."""
    return bool(getattr(method, "replaces", True))


def _describe(name: str, plugin: Any) -> MethodInfo:
    """The entry of a method that a package registers as a class or as an instance."""
    method = instantiate("methods", name, plugin)
    if not is_method(method):
        raise InputError(f"the methods plugin {name!r} is not a method: it needs `attribute` and `info`")
    summary = (type(method).__doc__ or type(method).__name__).strip().splitlines()[0]
    needs, cost = (str(getattr(method, name, "not stated")) for name in ("needs", "cost"))
    return MethodInfo(summary, needs, cost, {"default": Preset(method, summary)})


def _identify(method: Method) -> tuple[str, str | None]:
    """The id and preset under which an instance is registered; the class name for an unregistered one."""
    for infos in (METHODS, list_methods()):
        entries = [
            (name, preset if len(info.presets) > 1 else None, registered.method)
            for name, info in infos.items()
            for preset, registered in info.presets.items()
        ]
        same = [entry for entry in entries if entry[2] == method] or [e for e in entries if type(e[2]) is type(method)]
        if same:
            return same[0][:2]
    return type(method).__name__, None
