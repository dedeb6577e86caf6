"""Attribution methods, one file per family.

base.py            what a method is given and what it returns
registry.py        the methods by their ids, with presets; methods of installed packages
reagent_paper.py   ReAGent as published
reagent_fast.py    ReAGent from random removal, single and joint effects, and a test of sufficiency
probe_set.py       all probes of one explanation
surrogate.py       a sparse model of the drops: effects, Shapley values, standard errors
single_effects.py  the effect of each unit alone, from removals of single units and of blocks
substitution.py    the effect of replacing a unit by another unit of the text
redundancy.py      groups of units that act together
importance_order.py  the order of importance, measured
few_units.py       Shapley values of at most twelve units, from some of their subsets
leave_one_out.py   single effects of replacement from shared, balanced probes
effects.py         single effects and their standard errors from probes
lime.py            local linear models
occlusion.py       one unit at a time
shapley.py         Shapley values by sampled permutations
exact.py           exact Shapley values and interactions of a few units
greedy.py          the smallest set of units that keeps the prediction
gradients.py       input × gradient, integrated gradients, gradient SHAP
captum_adapter.py  a model as Captum expects it
attention.py       mean attention, attention of the last layer, attention rollout
information_flow.py  information-flow routes, value zeroing
attn_lrp.py        layer-wise relevance propagation
random.py          the random baseline
hierarchical.py    any method from coarse to fine
citation.py        the sources of an answer: each removed alone and kept alone
screening.py       the few units of a long prompt that can matter
shortening.py      a long prompt explained in the text that screening leaves
counterfactual.py  the output under the strongest replacement
probing.py         scoring probes in batches
normalization.py   from effects to scores
"""

from reagent.methods.attention import Attention
from reagent.methods.attn_lrp import AttnLrp
from reagent.methods.base import Attribution, Method, Progress, ProgressCallback
from reagent.methods.exact import Exact
from reagent.methods.gradients import GradientShap, InputXGradient, IntegratedGradients
from reagent.methods.greedy import Greedy
from reagent.methods.information_flow import InformationFlow, ValueZeroing
from reagent.methods.leave_one_out import LeaveOneOut
from reagent.methods.lime import Lime
from reagent.methods.occlusion import Occlusion
from reagent.methods.random import RandomScores
from reagent.methods.reagent_fast import ReagentFast
from reagent.methods.reagent_paper import ReagentPaper
from reagent.methods.registry import (
    METHODS,
    MethodInfo,
    Preset,
    find_method,
    list_methods,
    make_method,
    method_names,
    uses_replacer,
)
from reagent.methods.shapley import Shapley

__all__ = [
    "METHODS",
    "Attention",
    "AttnLrp",
    "Attribution",
    "Exact",
    "GradientShap",
    "Greedy",
    "InformationFlow",
    "InputXGradient",
    "IntegratedGradients",
    "LeaveOneOut",
    "Lime",
    "Method",
    "MethodInfo",
    "Occlusion",
    "Preset",
    "Progress",
    "ProgressCallback",
    "RandomScores",
    "ReagentFast",
    "ReagentPaper",
    "Shapley",
    "ValueZeroing",
    "find_method",
    "list_methods",
    "make_method",
    "method_names",
    "uses_replacer",
]
