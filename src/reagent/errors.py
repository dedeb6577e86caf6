"""Every error that reagent raises on purpose.

    ReagentError                what the command line prints as one line
    ├── InputError              what was given cannot be used: change it          (exit code 2)
    │   ├── UnknownNameError    no such model, method, replacer, preset or option
    │   ├── CapabilityError     the method needs what this model cannot give
    │   ├── EmptyGenerationError        the model says nothing, so there is nothing to explain
    │   └── FileError           a file that cannot be read, written or understood
    ├── FetchError              something outside failed: the network, the disk   (exit code 1)
    └── ServerError             a server did not answer, or not as it should      (exit code 1)

A message names what was given, what is allowed and what to do next, in one line.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class ReagentError(Exception):
    """The root of the tree: catch this to catch them all."""

    exit_code = 1


class InputError(ReagentError):
    """What was given cannot be used."""

    exit_code = 2


class UnknownNameError(InputError):
    """A name that nothing answers to.

    >>> str(UnknownNameError("method", "regent", ["reagent", "random"]))
    "unknown method 'regent', did you mean 'reagent'? Known: reagent, random"
    """

    def __init__(self, kind: str, given: str, known: Iterable[str], hint: str = "") -> None:
        names = list(known)
        close = get_close_matches(given, names, n=1)
        guess = f", did you mean {close[0]!r}?" if close else "."
        super().__init__(f"unknown {kind} {given!r}{guess} Known: {', '.join(names)}{hint}")


class CapabilityError(InputError):
    """A method needs what a model cannot give."""


class EmptyGenerationError(InputError):
    """A model ends the text right after the prompt."""

    def __init__(self) -> None:
        super().__init__("the model ends the text right after the prompt: give a --target to explain")


class FileError(InputError):
    """A file that cannot be read, written or understood."""


class FetchError(ReagentError):
    """Something that had to be fetched could not be."""


class ServerError(ReagentError):
    """A server did not answer, or not as it should."""
