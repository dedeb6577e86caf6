"""An upper bound of the cost of a request, without a single pass or request to a server."""

from reagent.api import cite, explain
from reagent.api.cite import CiteRequest
from reagent.models.base import Model
from reagent.models.dry_run import DryRunModel, RequestEstimate
from reagent.request import ExplainRequest


def is_server(model: Model) -> bool:
    """Whether the model runs behind an API."""
    return str(model.info["backend"]).startswith("http")


def run_dry(model: Model, request: ExplainRequest | CiteRequest) -> DryRunModel:
    """Answer the request on a model that only counts."""
    stand_in = DryRunModel(model)
    if isinstance(request, CiteRequest):
        cite.run(stand_in, request)
    else:
        explain.run(stand_in, request)
    return stand_in


def estimate_requests(model: Model, request: ExplainRequest | CiteRequest) -> RequestEstimate:
    """At most this number of requests to the server of the model, besides the one for the output."""
    dry_run = run_dry(model, request)
    return dry_run.echo if "of the prompt" in model.info["backend"] else dry_run.next_token
