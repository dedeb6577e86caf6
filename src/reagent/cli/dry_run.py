"""`--dry-run`, and a message before a long run: an upper bound of the cost of an explanation."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reagent.api.cite import CiteRequest
    from reagent.api.estimate import AnswerEstimate
    from reagent.models.base import Model
    from reagent.request import ExplainRequest

logger = logging.getLogger(__name__)

LONG_RUN = 1000  # requests from which a run is announced


def estimate(model: "Model", request: "ExplainRequest | CiteRequest", prices: tuple[float, float] | None = None) -> str:
    """A table of requests and tokens, for each way of scoring; with prices of a million tokens, the cost."""
    from reagent.api.estimate import estimate_answers, is_server, run_dry
    from reagent.models.text import TextModel

    if isinstance(model, TextModel):
        return _describe_answers(estimate_answers(model, request), prices)
    if not is_server(model):
        passes = run_dry(model, request).meter
        return f"at most {passes.forward_passes:,} forward passes over {passes.tokens:,} tokens, computed here"
    dry_run, own = run_dry(model, request), model.info["backend"]
    lines = [f"{'at most':<38}{'requests':>12}{'tokens sent':>14}{'received':>12}"]
    for name, cost, here in (
        ("with echoed prompt log-probabilities", dry_run.echo, "of the prompt" in own),
        ("with next-token log-probabilities", dry_run.next_token, "next token" in own),
        ("with the model's own answers (chats)", dry_run.greedy, "greedy" in own),
    ):
        this = "   ← this server" if here else ""
        price = "" if prices is None else f"   cost {_cost(cost.tokens, cost.requests, prices):,.2f}"
        lines.append(f"{name:<38}{cost.requests:>12,}{cost.tokens:>14,}{cost.requests:>12,}{price}{this}")
    return "\n".join([*lines, "and one request for the output, unless a target is given"])


def estimate_checks(model: "Model") -> str:
    """What a model scores if a proxy explains its answer."""
    from reagent.api.proxy import MOST_CHECKS

    answers = getattr(model, "answers", 1)
    own = f" ({answers} answers each)" if answers > 1 else ""
    name = model.info["id"]
    return f"at most {MOST_CHECKS} texts{own} are scored by {name}, besides its answer; the proxy does the rest"


def _describe_answers(cost: "AnswerEstimate", prices: tuple[float, float] | None) -> str:
    line = (
        f"at most {cost.requests:,} requests for answers, with about {cost.sent:,} tokens sent and at most "
        f"{cost.received:,} received"
    )
    return line if prices is None else f"{line}; cost about {_cost(cost.sent, cost.received, prices):,.2f}"


def _cost(sent: int, received: int, prices: tuple[float, float]) -> float:
    return (sent * prices[0] + received * prices[1]) / 1e6


def announce(model: "Model", request: "ExplainRequest | CiteRequest", quiet: bool) -> None:
    """Log the cost of a long run on a server."""
    from reagent.api.estimate import estimate_requests, is_server

    if quiet or not is_server(model):
        return
    cost = estimate_requests(model, request)
    if cost.requests >= LONG_RUN:
        logger.info(
            "at most %s requests with %s tokens; --dry-run prints this and stops",
            f"{cost.requests:,}",
            f"{cost.tokens:,}",
        )


def count_requests(model: "Model") -> Callable[[], str] | None:
    """The number of requests and of responses from the cache so far, for the progress bar."""
    from reagent.api.estimate import is_server

    if not is_server(model):
        return None
    meter, before = model.meter, replace(model.meter)

    def describe() -> str:
        cached = meter.cached - before.cached
        return f" ({meter.requests - before.requests:,} requests{f', {cached:,} from the cache' if cached else ''})"

    return describe
