"""The JSON Schemas of explanations, evaluations, citations, studies, summaries and records, for other programs.

__main__.py               writes the files anew: `python -m reagent.schemas`
explanation.schema.json   what Explanation.save writes
evaluation.schema.json    what Evaluation.save writes
citations.schema.json     what Citations.save writes
study.schema.json         what Study.save writes
summary.schema.json       what Summary.save writes
record.schema.json        what Record.save writes

The files are generated from the dataclasses of the results, as in explanation.py; a test compares them.
"""

import json
from importlib.resources import files
from typing import Any

from reagent.citations import Citations
from reagent.data_summary import Summary
from reagent.evaluation import Evaluation
from reagent.explanation import Explanation
from reagent.prompt_study import Study
from reagent.serialization import json_schema
from reagent.statement import Record

DOCUMENTS = {
    "explanation": Explanation,
    "evaluation": Evaluation,
    "citations": Citations,
    "study": Study,
    "summary": Summary,
    "record": Record,
}


def read_schema(name: str) -> dict[str, Any]:
    """The stored schema of "explanation", "evaluation", "citations", "study" or "record".

    >>> read_schema("explanation")["$id"]
    'reagent.explanation/2'
    """
    return dict(json.loads((files("reagent.schemas") / f"{name}.schema.json").read_text(encoding="utf-8")))


def generate_schema(name: str) -> dict[str, Any]:
    """The schema that follows from the dataclass."""
    return json_schema(DOCUMENTS[name])
