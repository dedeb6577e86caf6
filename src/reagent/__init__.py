"""Which parts of my prompt made this language model say that?

api/             the verbs: explain, cite, compare, evaluate
request.py       everything that is asked, checked once
case.py          the tokenised question
explanation.py   the result
explanation_parts.py  its tokens, groups, cost and other parts
explanation_checks.py  places in the texts of a result from a file
aggregation.py   the same in words or sentences, or for the answer as a whole
tracing.py       an answer traced through the reasoning to the prompt
serialization.py  its JSON
evaluation.py    how faithful it is
statement.py     a statement of record about it
comparison.py    several methods side by side
documents.py     documents, and the prompt that is made of them
citations.py     where each sentence of an answer about documents comes from
templates.py     templates of prompts, divided into parts
data_summary.py  which words matter on average over many prompts
prompt_study.py  what each part of a template does over many inputs
schemas/         the JSON schemas of the results
segmentation.py  words, sentences, paragraphs
sampling.py      balanced random designs
notebook.py      a progress bar in a notebook
progress_bars.py  progress in a terminal or a log
models/          how likely is this token?
diagnosis.py     versions, devices, cache, models and extras
replacers/       what may replace it?
removal.py       units deleted, masked or replaced
methods/         ReAGent and the methods that it is compared with
metrics/         faithfulness, with statistics
data/            the tasks of the paper, and files of prompts
bench/           whole benchmarks, resumable
studies/         prompt studies: a template over many inputs
report/          tables and figures of a study
views/           terminal, HTML, notebook, plots, LaTeX, data frames
exchange/        explanations for other tools, and from them
web/             the local web page
cli/             the command line
testing/         models with a known truth, and conformance suites
plugins.py       what other packages register
errors.py        every error that is raised on purpose
field_types.py   the types of the fields of results
validation.py    options of frozen dataclasses
atomic_io.py     files that are written completely or not at all

>>> import reagent
>>> "explain" in dir(reagent)
True
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from reagent._version import __version__

if TYPE_CHECKING:
    from reagent.api.check_traced import check_traced
    from reagent.api.cite import cite
    from reagent.api.compare import compare
    from reagent.api.evaluate import evaluate
    from reagent.api.explain import explain
    from reagent.api.record import record
    from reagent.citations import Citations
    from reagent.comparison import Comparison
    from reagent.data_summary import Summary
    from reagent.errors import InputError, ReagentError
    from reagent.evaluation import Evaluation
    from reagent.exchange.captum import from_captum
    from reagent.exchange.inseq import from_inseq
    from reagent.exchange.shap import from_shap
    from reagent.explanation import Explanation, Token, load
    from reagent.models import load_model
    from reagent.prompt_study import Study
    from reagent.studies.run import study
    from reagent.studies.summarize import summarize

logging.getLogger("reagent").addHandler(logging.NullHandler())

# Each public name and its module. A module is loaded when the name is first used, so that
# `import reagent` loads neither torch nor transformers.
_MODULES = {
    "explain": "reagent.api.explain",
    "evaluate": "reagent.api.evaluate",
    "compare": "reagent.api.compare",
    "cite": "reagent.api.cite",
    "record": "reagent.api.record",
    "check_traced": "reagent.api.check_traced",
    "from_captum": "reagent.exchange.captum",
    "from_inseq": "reagent.exchange.inseq",
    "from_shap": "reagent.exchange.shap",
    "study": "reagent.studies.run",
    "summarize": "reagent.studies.summarize",
    "load_model": "reagent.models",
    "load": "reagent.explanation",
    "Citations": "reagent.citations",
    "Summary": "reagent.data_summary",
    "Comparison": "reagent.comparison",
    "Evaluation": "reagent.evaluation",
    "Explanation": "reagent.explanation",
    "Study": "reagent.prompt_study",
    "Token": "reagent.explanation",
    "InputError": "reagent.errors",
    "ReagentError": "reagent.errors",
}

__all__ = [
    "Citations",
    "Comparison",
    "Evaluation",
    "Explanation",
    "InputError",
    "ReagentError",
    "Study",
    "Summary",
    "Token",
    "__version__",
    "check_traced",
    "cite",
    "compare",
    "evaluate",
    "explain",
    "from_captum",
    "from_inseq",
    "from_shap",
    "load",
    "load_model",
    "record",
    "study",
    "summarize",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'reagent' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
