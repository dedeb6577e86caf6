"""An upper bound of the cost of a request, without a single pass or request to a server."""

from typing import NamedTuple

from reagent.api import cite
from reagent.api.cite import CiteRequest
from reagent.api.run import run
from reagent.models.base import Model
from reagent.models.dry_run import DryRunModel, RequestEstimate
from reagent.models.text import TextModel
from reagent.request import ExplainRequest

TOKENS_PER_WORD = 4 / 3  # of English text, roughly; punctuation counts as words here


def is_server(model: Model) -> bool:
    """Whether the model runs behind an API."""
    return str(model.info["backend"]).startswith("http")


def run_dry(model: Model, request: ExplainRequest | CiteRequest) -> DryRunModel:
    """Answer the request on a model that only counts."""
    stand_in = DryRunModel(model)
    if isinstance(request, CiteRequest):
        cite.run(stand_in, request)
    else:
        run(stand_in, request)
    return stand_in


def estimate_requests(model: Model, request: ExplainRequest | CiteRequest) -> RequestEstimate:
    """At most this number of requests to the server of the model, besides the one for the output."""
    dry_run = run_dry(model, request)
    backend = model.info["backend"]
    return dry_run.echo if "of the prompt" in backend else dry_run.greedy if "greedy" in backend else dry_run.next_token


class AnswerEstimate(NamedTuple):
    """A number of requests for answers, and of the tokens sent and received."""

    requests: int
    sent: int
    received: int


def estimate_answers(model: TextModel, request: ExplainRequest | CiteRequest) -> AnswerEstimate:
    """At most these answers of a text-only model; the tokens are estimated from words."""
    own = model.answers_to_prompt
    if not model.scorer.needs_answers:
        probes = words = 0
    else:
        dry_run = run_dry(model, request).next_token
        probes, words = dry_run.requests - 1, dry_run.tokens  # one of them is the unchanged prompt
    requests = own + model.requests_per_probe * probes
    limit = model.options.max_requests
    allowed = requests if limit is None else min(requests, limit)
    longest = words / max(probes, 1)
    sent = (model.requests_per_probe * words + own * longest) * TOKENS_PER_WORD * allowed / max(requests, 1)
    return AnswerEstimate(allowed, round(sent), allowed * request.max_new_tokens)
