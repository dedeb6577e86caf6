"""What a service allows, and to whom."""

from dataclasses import dataclass, field
from pathlib import Path

from reagent.models.cache import cache_folder
from reagent.validation import check_integer


@dataclass(frozen=True)
class Limits:
    """How much one person may ask for; everybody waits for the one model."""

    queue: int = 16  # jobs that wait, besides the one that runs
    prompt: int = 20_000  # characters of a prompt, or of all messages of a chat together
    new_tokens: int = 100
    probes: int = 4096
    seconds: int = 600  # that a job may run
    body: int = 8 * 2**20  # bytes of a request: an explanation that is dropped on the page can be large

    def __post_init__(self) -> None:
        for name in ("queue", "prompt", "new_tokens", "probes", "seconds", "body"):
            check_integer("the service", name, getattr(self, name), 1, 2**40)


@dataclass(frozen=True)
class Access:
    """Who may come in; without a token, everyone who can reach the address."""

    remote: bool = False  # whether the page is asked for under names other than this machine's own loopback
    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset()  # host names besides localhost; addresses need no name
    port: int = 0  # tells the cookies of two services on one machine apart


@dataclass(frozen=True)
class ServiceConfig:
    """Everything about a service but its model."""

    limits: Limits = Limits()
    access: Access = Access()
    folder: Path = field(default_factory=lambda: cache_folder() / "explanations")
