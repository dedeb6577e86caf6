"""Notes on standard error after a run: the token of a contrast, and responses from the cache."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reagent.explanation import Explanation
    from reagent.models.base import Model

logger = logging.getLogger(__name__)


def note_contrast(why: "Explanation", contrast: str | None, quiet: bool) -> None:
    """Log the contrasted token if it is not exactly the given text."""
    if quiet or contrast is None or why.target["text"] == contrast:
        return
    index = why.target["index"]
    before = why.completion[: why.output[index].start]
    logger.info(
        "contrast %r: the token %r is compared with %r%s",
        contrast,
        why.target["text"],
        why.output[index].text,
        f" after {before!r}" if before else "",
    )


def note_cache(model: "Model", quiet: bool) -> None:
    """Log how many responses of a server were from the cache."""
    if not quiet and model.meter.cached:
        logger.info(
            "%s responses are from the cache; %s requests to the server",
            f"{model.meter.cached:,}",
            f"{model.meter.requests:,}",
        )
