"""Limits and access rules of a service."""

from dataclasses import dataclass, field
from pathlib import Path

from reagent.models.cache import cache_folder
from reagent.validation import check_integer


@dataclass(frozen=True)
class Limits:
    """The largest request that is accepted. All users share one model."""

    queue: int = 16  # waiting jobs, besides the running one
    prompt: int = 20_000  # characters of a prompt, or of all messages of a chat together
    new_tokens: int = 100
    probes: int = 4096
    seconds: int = 600  # of one job
    body: int = 8 * 2**20  # bytes of a request; an explanation that is dropped on the page can be large

    def __post_init__(self) -> None:
        for name in ("queue", "prompt", "new_tokens", "probes", "seconds", "body"):
            check_integer("the service", name, getattr(self, name), 1, 2**40)


@dataclass(frozen=True)
class Access:
    """Access rules; without a token, everyone who can reach the address has access."""

    remote: bool = False  # whether addresses other than loopback are allowed as the host of a request
    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset()  # allowed host names besides localhost; addresses need no name
    port: int = 0  # distinguishes the cookies of two services on one machine


@dataclass(frozen=True)
class ServiceConfig:
    """The settings of a service, except its model."""

    limits: Limits = Limits()
    access: Access = Access()
    folder: Path = field(default_factory=lambda: cache_folder() / "explanations")  # of the saved explanations
