"""Which parts of my prompt made this language model say that?

>>> import reagent
>>> "explain" in dir(reagent)
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reagent._version import __version__

if TYPE_CHECKING:
    from reagent.api.compare import compare
    from reagent.api.evaluate import evaluate
    from reagent.api.explain import explain
    from reagent.errors import ReagentError
    from reagent.evaluation import Evaluation
    from reagent.explanation import Explanation, Token, load
    from reagent.models import load_model

# Each public name and the module that has it. They load when first used, so that
# `import reagent` needs neither torch nor transformers.
_HOME = {
    "explain": "reagent.api.explain",
    "evaluate": "reagent.api.evaluate",
    "compare": "reagent.api.compare",
    "load_model": "reagent.models",
    "load": "reagent.explanation",
    "Evaluation": "reagent.evaluation",
    "Explanation": "reagent.explanation",
    "Token": "reagent.explanation",
    "ReagentError": "reagent.errors",
}

__all__ = [
    "Evaluation",
    "Explanation",
    "ReagentError",
    "Token",
    "__version__",
    "compare",
    "evaluate",
    "explain",
    "load",
    "load_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'reagent' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
