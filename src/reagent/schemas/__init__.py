"""The JSON Schemas of explanations, evaluations and citations, for other programs.

__main__.py               writes the files anew: `python -m reagent.schemas`
explanation.schema.json   what Explanation.save writes
evaluation.schema.json    what Evaluation.save writes
citations.schema.json     what Citations.save writes

The files are generated from the dataclasses in explanation.py, evaluation.py and citations.py; a test compares them.
"""

import json
from importlib.resources import files
from typing import Any

from reagent.citations import Citations
from reagent.evaluation import Evaluation
from reagent.explanation import Explanation
from reagent.serialization import json_schema

DOCUMENTS = {"explanation": Explanation, "evaluation": Evaluation, "citations": Citations}


def read_schema(name: str) -> dict[str, Any]:
    """The stored schema of "explanation", "evaluation" or "citations".

    >>> read_schema("explanation")["$id"]
    'reagent.explanation/2'
    """
    return dict(json.loads((files("reagent.schemas") / f"{name}.schema.json").read_text(encoding="utf-8")))


def generate_schema(name: str) -> dict[str, Any]:
    """The schema that follows from the dataclass."""
    return json_schema(DOCUMENTS[name])
