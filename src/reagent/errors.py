"""The errors that reagent raises.

    ReagentError                    the command line prints it as one line
    ├── InputError                  an argument cannot be used; also a ValueError    (exit code 2)
    │   ├── UnknownNameError        an unknown model, method, replacer, preset or option
    │   ├── CapabilityError         the model lacks a capability that the method needs
    │   ├── EmptyGenerationError    the model generates no text, so there is nothing to explain
    │   └── FileError               a file cannot be read, written or understood
    ├── FetchError                  a download or a disk failed                      (exit code 1)
    ├── ServerError                 a server did not answer, or its answer is wrong  (exit code 1)
    ├── BudgetError                 the permitted cost or number of requests is used up  (exit code 1)
    ├── ProxyError                  a proxy does not behave like the model           (exit code 1)
    └── UnusedPartsError            a template has parts that can go                 (exit code 1)

A message is one line. It names the given value, the allowed values and the next step.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class ReagentError(Exception):
    """The base class of all errors of reagent."""

    exit_code = 1

    def __str__(self) -> str:
        return " ".join(super().__str__().splitlines())  # texts of other libraries, and names, may have several lines


class InputError(ReagentError, ValueError):
    """An argument cannot be used."""

    exit_code = 2


class UnknownNameError(InputError):
    """A name that is not known.

    >>> str(UnknownNameError("method", "regent", ["reagent", "random"]))
    "unknown method 'regent', did you mean 'reagent'? Known: reagent, random"
    """

    def __init__(self, kind: str, given: str, known: Iterable[str], hint: str = "") -> None:
        names = list(known)
        close = get_close_matches(str(given), names, n=1)
        guess = f", did you mean {close[0]!r}?" if close else "."
        super().__init__(f"unknown {kind} {given!r}{guess} Known: {', '.join(names)}{hint}")


class CapabilityError(InputError):
    """A model lacks a capability that a method needs."""


class EmptyGenerationError(InputError):
    """A model ends the text right after the prompt, so that there is no output."""

    def __init__(self, hint: str = "") -> None:
        super().__init__(f"the model ends the text right after the prompt: give the text to explain as `target`{hint}")


class FileError(InputError):
    """A file cannot be read, written or understood."""


class FetchError(ReagentError):
    """A download or a disk failed."""


class ServerError(ReagentError):
    """A server did not answer, or its answer is wrong."""


class BudgetError(ReagentError):
    """The permitted cost or number of requests is used up, or would be."""


class ProxyError(ReagentError):
    """A proxy does not behave like the model that it stands for."""


class UnusedPartsError(ReagentError):
    """A template has parts that can go, which the caller does not allow."""
