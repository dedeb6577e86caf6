"""`--dry-run`, and a word before a long run: what an explanation would take."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reagent.models.base import Model
    from reagent.models.dry_run import Rehearsal
    from reagent.request import ExplainRequest

LONG = 1000  # requests from which on a run is announced


def estimate(model: "Model", request: "ExplainRequest") -> str:
    """A table of requests and tokens, by each way in which a server may be asked."""
    if not _is_server(model):
        passes = _rehearsed(model, request).meter
        return f"at most {passes.forward_passes:,} forward passes over {passes.tokens:,} tokens, computed here"
    found, own = _rehearsed(model, request), model.info["backend"]
    lines = [f"{'at most':<38}{'requests':>12}{'tokens sent':>14}{'received':>12}"]
    for name, tally, here in (
        ("with echoed prompt log-probabilities", found.echo, "of the prompt" in own),
        ("with next-token log-probabilities", found.next, "next token" in own),
    ):
        this = "   ← this server" if here else ""
        lines.append(f"{name:<38}{tally.requests:>12,}{tally.tokens:>14,}{tally.requests:>12,}{this}")
    return "\n".join([*lines, "and one request for the output, unless a target is given"])


def announce(model: "Model", request: "ExplainRequest", quiet: bool) -> None:
    """Tell what a long run on a server will take."""
    if quiet or not _is_server(model):
        return
    from reagent.models.cache import say

    found = _rehearsed(model, request)
    tally = found.echo if "of the prompt" in model.info["backend"] else found.next
    if tally.requests >= LONG:
        say(f"at most {tally.requests:,} requests with {tally.tokens:,} tokens; --dry-run tells without asking")


def count_requests(model: "Model") -> Callable[[], str] | None:
    """How many requests were made so far, for the progress bar."""
    before = model.meter.requests
    return (lambda: f" ({model.meter.requests - before:,} requests)") if _is_server(model) else None


def _rehearsed(model: "Model", request: "ExplainRequest") -> "Rehearsal":
    from reagent.api.explain import run
    from reagent.models.dry_run import Rehearsal

    stand_in = Rehearsal(model)
    run(stand_in, request)
    return stand_in


def _is_server(model: "Model") -> bool:
    return str(model.info["backend"]).startswith("http")
