"""Attribution methods, one file per family.

base.py       what a method is given and what it returns
reagent.py    ReAGent as published
reagent_fast.py, effects.py   ReAGent with shared, dealt probes; effects and their errors from them
lime.py, occlusion.py, shapley.py, greedy.py   other methods that need nothing but probabilities
gradients.py, attention.py    methods that look inside a network
random_scores.py   the baseline
levels.py, what_if.py   any of them coarse to fine; what the model would have said
rows.py, scores.py      what they share: asking in blocks, and from effects to scores
"""

from reagent.methods.attention import Attention
from reagent.methods.base import Attribution, Method, Progress, ProgressCallback
from reagent.methods.gradients import GradientShap, InputXGradient, IntegratedGradients
from reagent.methods.greedy import Greedy
from reagent.methods.lime import Lime
from reagent.methods.occlusion import Occlusion
from reagent.methods.random import RandomScores
from reagent.methods.reagent_fast import ReagentFast
from reagent.methods.reagent_paper import ReagentPaper
from reagent.methods.registry import METHODS, MethodInfo, Preset, find_method, make_method, method_names, uses_replacer
from reagent.methods.shapley import Shapley

__all__ = [
    "METHODS",
    "Attention",
    "Attribution",
    "GradientShap",
    "Greedy",
    "InputXGradient",
    "IntegratedGradients",
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
    "find_method",
    "make_method",
    "method_names",
    "uses_replacer",
]
