"""The address of a server, the key, and the options of the connection."""

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from reagent.errors import InputError
from reagent.validation import check_integer, check_range, check_types

LONGEST = 1e6  # seconds
KEYS = ("REAGENT_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True)
class ServerOptions:
    """The options of a model at a URL."""

    tokenizer: str | Path | None = None  # hub id, folder or bundled model; needed if the server has no /tokenize
    cache: str | Path | None = None  # a file that stores responses, so that no request is paid for twice
    concurrency: int = 8  # requests at the same time
    rate: float | None = None  # requests per second, at most
    timeout: float = 60.0  # seconds to wait for a connection or for more of a response
    deadline: float = 600.0  # seconds for a whole response
    megabytes: int = 32  # of the largest response, decompressed
    retries: int = 5  # of a request that failed for a transient reason
    backoff: float = 0.5  # seconds before the first retry; doubled each time
    top: int = 20  # top log-probabilities to request; a server may return fewer
    recover: bool = False  # recover exact values of unlisted targets by logit_bias, with a few more requests for each

    def __post_init__(self) -> None:
        owner = "a server"
        check_types(owner, self)
        for name in ("tokenizer", "cache"):
            if getattr(self, name) == "":
                raise InputError(f"`{name}` of {owner} is empty: give a name, or leave it out")
        check_integer(owner, "concurrency", self.concurrency, 1, 1000)
        check_integer(owner, "retries", self.retries, 0, 100)
        check_integer(owner, "top", self.top, 1, 100_000)
        check_range(owner, "timeout", self.timeout, 0.001, LONGEST)
        check_range(owner, "deadline", self.deadline, 0.001, LONGEST)
        check_integer(owner, "megabytes", self.megabytes, 1, 10_000)
        check_range(owner, "backoff", self.backoff, 0, LONGEST)
        if self.rate is not None:
            check_range(owner, "rate", self.rate, 1e-6)


@dataclass(frozen=True)
class ServerAddress:
    """`root` is the server, `api` its OpenAI-compatible part, `model` the name of a model on it, if given."""

    root: str
    api: str
    model: str | None = None

    @classmethod
    def parse(cls, url: str) -> "ServerAddress":
        """
        >>> ServerAddress.parse("http://localhost:8000#llama")
        ServerAddress(root='http://localhost:8000', api='http://localhost:8000/v1', model='llama')
        >>> ServerAddress.parse("https://api.example.com/openai/v1/").root
        'https://api.example.com/openai'
        """
        try:
            parts = urlsplit(url.strip())
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise InputError(f"the server's address is not a URL: {error}; {_FORM}") from error
        if parts.username is not None or parts.password is not None or parts.query:
            # The message does not repeat it: it may be a secret.
            raise InputError(
                f"the server's address must hold no user name, no password and no query: {_FORM}, "
                f"and a key in the environment ({' or '.join(KEYS)})"
            )
        if not host:
            raise InputError(f"the server's address {url!r} names no host: {_FORM}")
        path = parts.path.rstrip("/")
        versioned = re.search(r"/v\d+$", path)
        root = f"{parts.scheme.lower()}://{parts.netloc}{path[: versioned.start()] if versioned else path}"
        return cls(root, root + (versioned.group() if versioned else "/v1"), parts.fragment or None)

    def key(self) -> str | None:
        """The API key, which is read from the environment only.

        OPENAI_API_KEY is sent only through TLS or to this machine.
        """
        parts = urlsplit(self.root)
        names = KEYS if parts.scheme == "https" or _is_loopback(parts) else KEYS[:1]
        key = next((value for name in names if (value := os.environ.get(name, "").strip())), None)
        if key is not None and not (key.isascii() and key.isprintable()):
            raise InputError(f"the key in {' or '.join(names)} has characters that cannot be sent: set it again")
        return key


_FORM = "give it as http(s)://host[:port][/v1][#model]"


def _is_loopback(parts: SplitResult) -> bool:
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"
