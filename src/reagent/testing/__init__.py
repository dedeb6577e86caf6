"""For people who write methods, replacers, models or metrics: models with a known truth, and conformance suites.

conformance.py   check_method, check_replacer, check_model, check_metric: what must be true of each
planted.py       scripted models whose causes are known
scripted.py      a plain Python function as a model

The checks raise AssertionError with one sentence that names the broken rule, as scikit-learn's `check_estimator` does.

>>> from reagent.methods import ReagentFast
>>> check_method(ReagentFast(probes=48))
"""

from reagent.testing.conformance import check_method, check_metric, check_model, check_replacer
from reagent.testing.planted import WORDS, additive, all_of, any_of, mentions, two_hops
from reagent.testing.scripted import ScriptedModel

__all__ = [
    "WORDS",
    "ScriptedModel",
    "additive",
    "all_of",
    "any_of",
    "check_method",
    "check_metric",
    "check_model",
    "check_replacer",
    "mentions",
    "two_hops",
]
