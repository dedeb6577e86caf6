"""Responses from the likelihood of the original answer under a proxy: another model, which reads the same prompts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from reagent.case import Floats
from reagent.models.base import HasChatTemplate, Model, Response
from reagent.models.chat import Chat

LIKELIHOOD = Response("nats under the proxy", is_logprob=False)
MIXTURE = Response("similarity and likelihood", 0.1, is_logprob=False, saturates=True)
PARAGRAPH = "\n\n"  # between a text and the answer of a chat, for a proxy that only continues texts


class Likelihood(NamedTuple):
    """The log-likelihood of an answer, and its number of tokens."""

    total: float
    tokens: int


@dataclass
class ProxyScorer:
    """The log-likelihood of the original answer under another model: no further answers are needed."""

    source: Any  # what load_model accepts
    response: Response = field(default=LIKELIHOOD, init=False)
    needs_answers: bool = field(default=False, init=False)
    _known: dict[tuple[str, str], Likelihood] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        return f"proxy:{self.model.info['id']}"

    @cached_property
    def model(self) -> Model:
        from reagent.models.load import load_model

        return load_model(self.source)

    def check(self, prompt: str | Chat, reference: str) -> None:
        """Every text has a likelihood."""

    def score(self, prompts: Sequence[str | Chat], answers: Sequence[str], reference: str) -> Floats:  # noqa: ARG002
        return np.array([self.likelihood(prompt, reference).total for prompt in prompts])

    def likelihood(self, prompt: str | Chat, reference: str) -> Likelihood:
        key = (repr(prompt), reference)
        if key not in self._known:
            self._known[key] = self._measure(prompt, reference)
        return self._known[key]

    def _measure(self, prompt: str | Chat, reference: str) -> Likelihood:
        if not isinstance(prompt, str) and isinstance(self.model, HasChatTemplate):
            case = self.model.chat(prompt, reference)
        else:
            case = self.model.case(_as_beginning(prompt, reference), reference)
        logprobs = [unit.logprob or 0.0 for unit in case.with_logprobs(self.model).output]
        return Likelihood(math.fsum(logprobs), len(logprobs))


def _as_beginning(prompt: str | Chat, reference: str) -> str:
    """The text that the reference continues."""
    text = prompt if isinstance(prompt, str) else PARAGRAPH.join(message["content"] for message in prompt)
    continues = text[-1:].isspace() or not reference[:1].isalnum()
    return text if continues else text + PARAGRAPH


@dataclass
class MixedScorer:
    """The mean of how much the new answer is like the original one, and of the likelihood of the original one.

    An answer soon is as unlike as it can be, so that many units have one effect. The likelihood under a proxy is
    graded, but only the answers come from the model that is explained. The likelihood of a token, as a geometric mean,
    is relative to that under the unchanged prompt, and at most 1.
    """

    likeness: Any  # another scorer, with responses from 0 to 1
    proxy: ProxyScorer
    response: Response = field(default=MIXTURE, init=False)
    needs_answers: bool = field(default=True, init=False)
    _original: dict[str, Likelihood] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        return f"{self.likeness.name}+{self.proxy.name}"

    def check(self, prompt: str | Chat, reference: str) -> None:
        self.likeness.check(prompt, reference)
        self._original[reference] = self.proxy.likelihood(prompt, reference)

    def score(self, prompts: Sequence[str | Chat], answers: Sequence[str], reference: str) -> Floats:
        return self.join_parts(prompts, self.likeness.score(prompts, answers, reference), reference)

    def compare_part(self, answers: Sequence[str], reference: str) -> Floats:
        return np.asarray(self.likeness.compare_part(answers, reference))

    def join_parts(self, prompts: Sequence[str | Chat], likeness: Floats, reference: str) -> Floats:
        return np.array([(a + self._relative(p, reference)) / 2 for a, p in zip(likeness, prompts, strict=True)])

    def _relative(self, prompt: str | Chat, reference: str) -> float:
        now = self.proxy.likelihood(prompt, reference)
        original = self._original.get(reference, now)
        return math.exp(min(0.0, now.total / max(now.tokens, 1) - original.total / max(original.tokens, 1)))
