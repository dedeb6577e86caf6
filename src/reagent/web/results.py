"""What a job computes: an explanation or citations. The rest of the service treats both alike."""

from collections.abc import Callable
from typing import Any, Literal

from reagent.api import cite
from reagent.api.cite import CiteRequest
from reagent.api.run import run
from reagent.citations import Citations
from reagent.explanation import Explanation
from reagent.methods import ProgressCallback
from reagent.models.base import Model
from reagent.request import ExplainRequest
from reagent.views import citations_page, html
from reagent.views.text import mark_cut, shorten

JobRequest = ExplainRequest | CiteRequest
Result = Explanation | Citations
Kind = Literal["explanation", "citations"]
PROMPT_LENGTH = 200  # characters of a prompt or question in the history


def kind_of(item: JobRequest | Result) -> Kind:
    return "citations" if isinstance(item, CiteRequest | Citations) else "explanation"


def compute(
    model: Model, request: JobRequest, on_progress: ProgressCallback, on_answer: Callable[[str], None]
) -> Result:
    """Answer a checked request."""
    if isinstance(request, CiteRequest):
        return cite.run(model, request, on_progress, on_answer)
    return run(model, request, on_progress, on_answer)


def summarize_request(request: JobRequest) -> dict[str, str]:
    """The prompt and the method in a few words: of a chat the last user message, of citations the question."""
    if isinstance(request, CiteRequest):
        return {"prompt": shorten(request.question, PROMPT_LENGTH), "method": "cite"}
    prompt = request.prompt
    if not isinstance(prompt, str):
        texts = [str(message["content"]) for message in prompt if message["role"] == "user"]
        prompt = texts[-1] if texts else str(prompt[-1]["content"])
    return {"prompt": shorten(prompt, PROMPT_LENGTH), "method": str(request.method_info["id"])}


def answer_of(result: Result) -> str:
    return mark_cut(result.answer if isinstance(result, Citations) else result.completion)


def count_probes(result: Result) -> int:
    return result.cost.forward_passes if isinstance(result, Citations) else result.cost.probes


def to_view_data(result: Result) -> dict[str, Any]:
    """The input of citations.js or view.js."""
    return citations_page.to_view_data(result) if isinstance(result, Citations) else html.to_view_data(result)


def read_result(data: Any) -> Result:
    """Read the JSON form of either kind. Anything else is a FileError."""
    schema = data.get("schema") if isinstance(data, dict) else None
    is_citations = isinstance(schema, str) and schema.startswith("reagent.citations/")
    return Citations.from_dict(data) if is_citations else Explanation.from_dict(data)
