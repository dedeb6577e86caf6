"""A model that only answers with text, in the form of any other model.

The output is one unit: the whole answer. In place of its log-probability stands the response of a scorer: how much the
model's new answer to a perturbed prompt is like the original one, on average over `answers` answers. Methods need only
this number. The units of the prompt are words.

A small change of the prompt can change a word of the answer that two words were equally likely for, and with it all
that follows. With `parts`, the model also continues the beginnings of the original answer, and each continuation is
compared with its part: a response is the mean of that of the whole answer and that of the parts.

Sampled answers add noise. Responses are between that of an unrelated answer, f, and 1. On a scale from f to 1, the
variance of the response of one answer is modelled as c m (1 − m), where m is its expectation. Both f and c ≤ 1 are
estimated from all answers so far; f = 0 and c = 1 for labels. For a mean over n answers, m is estimated as by Agresti
and Coull, with four further answers, so that a prompt with n equal answers has a standard error too. A few answers say
little about their own variance: a standard error is at least that of the variance within prompts, averaged over all.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, TargetScores
from reagent.errors import BudgetError, EmptyGenerationError, InputError
from reagent.explanation import Message, Token
from reagent.models.base import UNKNOWN_RANK, Response
from reagent.models.chat import Chat, Tools, uses_tools
from reagent.models.http.model import tokenize_messages
from reagent.models.http.vocabulary import TextVocabulary
from reagent.models.text.scorers import AnswerScorer, ComparesParts, make_scorer
from reagent.models.text.similarity import normalize, words
from reagent.models.text.sources import AnswerSource, Request
from reagent.segmentation import split_words
from reagent.validation import check_integer, check_range

logger = logging.getLogger(__name__)

SAMPLED_ANSWERS = 3  # for each probe, if answers are sampled
BASE_ANSWERS = 4  # times as many answers to the unchanged prompt, since all effects depend on them
EMPTIED = "…"  # stands for a message without any of its words, because servers refuse empty messages
UNRELATED = 0.1  # quantile of all responses: that of an unrelated answer
PRIOR_ANSWERS = 4  # of Agresti and Coull, half of them with response 1

Prompt = str | tuple[tuple[str, str], ...]  # a text, or role and content of each message


@dataclass(frozen=True)
class TextOptions:
    """The options of a text-only model."""

    score: Any = "text"  # a name of `scorers`, a function of the answer and the original one, or a scorer
    answers: int | None = None  # for each probe; 1, or 3 at a temperature above 0
    temperature: float = 0.0  # of a server
    parts: int = 1  # of the original answer: the model also continues it at the end of each part but the last
    max_requests: int | None = None  # to the model, including those for the original answer

    def __post_init__(self) -> None:
        owner = "a text-only model"
        if self.answers is not None:
            check_integer(owner, "answers", self.answers, 1, 1000)
        check_integer(owner, "parts", self.parts, 1, 100)
        if self.max_requests is not None:
            check_integer(owner, "max_requests", self.max_requests, 2)
        check_range(owner, "temperature", self.temperature, 0, 5)

    @property
    def chosen_answers(self) -> int:
        return self.answers or (SAMPLED_ANSWERS if self.temperature > 0 else 1)


class Reference(NamedTuple):
    """The original answer and its parts, and the number of tokens that new answers may have."""

    text: str
    parts: tuple[str, ...]
    max_new_tokens: int

    @property
    def beginnings(self) -> list["Beginning"]:
        """What is given of the answer in each request, and how long the rest may be."""
        starts = ["".join(self.parts[:k]) for k in range(len(self.parts))]
        longest = [self.max_new_tokens, *(min(self.max_new_tokens, _most_tokens(part)) for part in self.parts[1:])]
        return [Beginning(start, limit) for start, limit in zip(starts, longest, strict=True)]


class Beginning(NamedTuple):
    text: str
    max_new_tokens: int


class TextModel:
    """Asks a source for answers, and scores them; every answer is kept and asked for only once."""

    def __init__(self, source: AnswerSource, options: TextOptions | None = None) -> None:
        self.source, self.options, self.meter = source, options or TextOptions(), source.meter
        self.scorer: AnswerScorer = make_scorer(self.options.score)
        self.answers = self.options.chosen_answers if self.scorer.needs_answers else 1
        if self.options.parts > 1 and not isinstance(self.scorer, ComparesParts):
            raise InputError(f"the scorer {self.scorer.name!r} does not compare parts of answers: leave out `parts`")
        self.vocabulary = TextVocabulary(split_words, lambda _ids, target: [target], "words")
        self._references: dict[int, Reference] = {}
        self._unchanged: set[Prompt] = set()
        self._answers: dict[tuple[Prompt, Beginning], list[str]] = {}
        self._responses: dict[tuple[Prompt, str], Floats] = {}  # of each prompt to a reference, with several answers

    @property
    def response(self) -> Response:
        return self.scorer.response

    @property
    def info(self) -> Mapping[str, Any]:
        info = {**self.source.info, "tokens": "words", "score": self.scorer.name}
        sampled = {"answers": self.answers, "temperature": self.options.temperature} if self.answers > 1 else {}
        return info | sampled | ({"parts": self.options.parts} if self.options.parts > 1 else {})

    @property
    def requests_per_probe(self) -> int:
        return self.answers * self.options.parts

    @property
    def affordable_probes(self) -> int | None:
        """The number of probes that `max_requests` allows; None without a limit."""
        limit = self.options.max_requests
        if limit is None or not self.scorer.needs_answers:
            return None
        return max(0, limit - self.meter.requests) // self.requests_per_probe

    @property
    def answers_to_prompt(self) -> int:
        """The number of answers to the unchanged prompt: those to choose from, and those that are compared."""
        return self.options.parts if self.answers == 1 else self.answers * (1 + BASE_ANSWERS * self.options.parts)

    # --- cases ---

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        if not prompt.strip():
            raise InputError("the prompt is empty: give some text to explain")
        return self._case(prompt, prompt, self.vocabulary.tokenize(prompt), target, max_new_tokens)

    def chat(self, messages: Chat, target: str | None = None, max_new_tokens: int = 10, tools: Tools = ()) -> Case:
        text, source, rendered = self._tokenize_chat(messages, tools)
        prompt = tuple((message["role"], message["content"]) for message in messages)
        return replace(self._case(text, prompt, source, target, max_new_tokens), messages=rendered)

    def preview_case(
        self, prompt: str | Chat, target: str | None = None, max_new_tokens: int = 10, tools: Tools = ()
    ) -> Case:
        """The case without a request."""
        if isinstance(prompt, str):
            answer = self._answer_token(target or EMPTIED, max_new_tokens)
            return Case(prompt, answer.text, self.vocabulary.tokenize(prompt), (answer,))
        text, source, rendered = self._tokenize_chat(prompt, tools)
        answer = self._answer_token(target or EMPTIED, max_new_tokens)
        return Case(text, answer.text, source, (answer,), messages=rendered)

    def _tokenize_chat(self, messages: Chat, tools: Tools) -> tuple[str, tuple[Token, ...], tuple[Message, ...]]:
        if uses_tools(messages, tools):
            raise InputError("a text-only model takes no tools: leave them and their messages out")
        return tokenize_messages(self.vocabulary, messages)

    def _case(
        self, text: str, prompt: Prompt, source: tuple[Token, ...], target: str | None, max_new_tokens: int
    ) -> Case:
        self._unchanged.add(prompt)
        given = target is not None
        if target is None:
            answers = self._ask(prompt, max_new_tokens, 1 if not self.scorer.needs_answers else self.answers)
            target = self._most_typical(_as_chat(prompt), answers)
        if not target.strip():
            raise EmptyGenerationError
        self.scorer.check(_as_chat(prompt), target)
        new = max(max_new_tokens, _most_tokens(target)) if given else max_new_tokens
        return Case(text, target, source, (self._answer_token(target, new),))

    def _answer_token(self, target: str, max_new_tokens: int) -> Token:
        (token,) = self.vocabulary.tokenize_target("", (), target, False)
        self._references[token.ids[0]] = Reference(target, split_parts(target, self.options.parts), max_new_tokens)
        return token

    def _most_typical(self, prompt: str | Chat, answers: Sequence[str]) -> str:
        """The answer that is most like all others."""
        if len(set(answers)) == 1:
            return answers[0]
        likeness = [self.scorer.score([prompt] * len(answers), answers, answer).sum() for answer in answers]
        return answers[int(np.argmax(likeness))]

    # --- responses ---

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        return self.score_ragged(list(sequences), np.tile(positions, (len(sequences), 1)), targets)

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        """In place of the log-probability is the response; rank 0 means that most answers are the original one."""
        prompts = [self._prompt_of(ids[: own[0]]) for ids, own in zip(sequences, positions.tolist(), strict=True)]
        value, rank = np.empty(positions.shape), np.full(positions.shape, UNKNOWN_RANK)
        for length in positions[:, 0].tolist():
            self.meter.add(1, length)
        for column, target in enumerate(targets.tolist()):
            reference = self._references[target]
            if not self.scorer.needs_answers:
                value[:, column] = self.scorer.score([_as_chat(p) for p in prompts], [], reference.text)
                continue
            whole, *later = [self._ask_all(prompts, beginning) for beginning in reference.beginnings]
            for row, answers in enumerate(whole):
                asked = [_as_chat(prompts[row])] * len(answers)
                responses = self.scorer.score(asked, answers, reference.text)
                if later:
                    rest = [list(answers) for answers in (whole[row], *(some[row] for some in later))]
                    responses = (responses + self._score_parts(asked, rest, reference)) / 2
                value[row, column] = responses.mean()
                same = sum(normalize(answer) == normalize(reference.text) for answer in answers)
                rank[row, column] = 0 if 2 * same > len(answers) else UNKNOWN_RANK
                if len(answers) > 1:
                    self._responses[prompts[row], reference.text] = responses
        return TargetScores(value, rank)

    def _score_parts(
        self, prompts: Sequence[str | Chat], answers: Sequence[Sequence[str]], reference: Reference
    ) -> Floats:
        """The mean response of the parts: new texts are cut to their lengths."""
        assert isinstance(self.scorer, ComparesParts)
        likeness = []
        for part, some in zip(reference.parts, answers, strict=True):
            text = part.strip()
            likeness.append(self.scorer.compare_part([answer.strip()[: len(text)] for answer in some], text))
        return self.scorer.join_parts(prompts, np.mean(likeness, axis=0), reference.text)

    def sampling_stderr(self, values: Floats, unchanged: bool = False) -> Floats:
        """The standard errors of mean responses, of perturbed prompts or of the unchanged one."""
        if self.answers == 1:
            return np.zeros_like(values)
        floor, share, within = self._noise()
        n = self.answers * (BASE_ANSWERS if unchanged else 1)
        mean = (n * _scaled(values, floor) + PRIOR_ANSWERS / 2) / (n + PRIOR_ANSWERS)
        own = (1 - floor) * np.sqrt(share * mean * (1 - mean) / (n + PRIOR_ANSWERS))
        return np.maximum(own, np.sqrt(within / n))

    def _noise(self) -> tuple[float, float, float]:
        """The response of an unrelated answer; c, the variance relative to responses of these two values only; and the
        mean variance within prompts.
        """
        rows = list(self._responses.values())
        if not rows:
            return 0.0, 1.0, 0.0
        floor = min(float(np.quantile(np.concatenate(rows), UNRELATED)), 0.9)
        scaled = [_scaled(row, floor) for row in rows]
        within = sum(float(row.var(ddof=1)) for row in scaled)
        possible = sum(float(row.mean() * (1 - row.mean())) * len(row) / (len(row) - 1) for row in scaled)
        mean = float(np.mean([row.var(ddof=1) for row in rows]))
        return floor, min(1.0, within / possible) if possible > 0 else 1.0, mean

    # --- requests ---

    def _ask_all(self, prompts: Sequence[Prompt], beginning: Beginning) -> list[list[str]]:
        """The answers to each prompt; equal prompts share theirs."""
        counts = {p: self.answers * (BASE_ANSWERS if p in self._unchanged and self.answers > 1 else 1) for p in prompts}
        missing = [
            (prompt, sample)
            for prompt, count in counts.items()
            for sample in range(len(self._answers.get((prompt, beginning), ())), count)
        ]
        for begin in range(0, len(missing), self.source.at_once):
            self._request(missing[begin : begin + self.source.at_once], beginning)
        return [self._answers[prompt, beginning][: counts[prompt]] for prompt in prompts]

    def _ask(self, prompt: Prompt, max_new_tokens: int, count: int) -> list[str]:
        """The answers from which the original one is chosen; the response of the prompt comes from others."""
        first = 0 if count == 1 else BASE_ANSWERS * count
        self._check_budget(count)
        requests = [Request(_as_chat(prompt), max_new_tokens, first + i) for i in range(count)]
        answers = self.source.answer(requests)
        if count == 1:
            self._answers[prompt, Beginning("", max_new_tokens)] = list(answers)
        return answers

    def _request(self, missing: Sequence[tuple[Prompt, int]], beginning: Beginning) -> None:
        self._check_budget(len(missing))
        text, limit = beginning
        requests = [Request(_as_chat(prompt), limit, sample, text) for prompt, sample in missing]
        for (prompt, _), answer in zip(missing, self.source.answer(requests), strict=True):
            self._answers.setdefault((prompt, beginning), []).append(answer)

    def _check_budget(self, count: int) -> None:
        limit = self.options.max_requests
        if limit is not None and self.meter.requests + count > limit:
            raise BudgetError(
                f"{self.meter.requests} of at most {limit} requests are used, and {count} more are needed: "
                "raise `max_requests` or ask for fewer probes; the answers so far are kept by this model"
                " (in a file with `cache`)"
            )

    def _prompt_of(self, ids: Ids) -> Prompt:
        """The text or the messages of a sequence."""
        if not any(i in self.vocabulary.roles for i in ids.tolist()):
            return self.vocabulary.decode(ids.tolist())
        messages: list[tuple[str, str]] = []
        for i in ids.tolist():
            if i in self.vocabulary.roles:
                messages.append((self.vocabulary.roles[i], ""))
            else:
                role, content = messages[-1]
                messages[-1] = (role, content + self.vocabulary.decode([i]))
        return tuple((role, content if content.strip() else EMPTIED) for role, content in messages[:-1])


def _most_tokens(text: str) -> int:
    """The number of tokens that a new text in place of this one may have."""
    return max(2 * len(words(text)), -(-len(text) // 2))


def split_parts(answer: str, count: int) -> tuple[str, ...]:
    """The answer in parts of about as many words, or characters if it has too few words.

    >>> split_parts(" a big red boat", 2), split_parts("はい", 3)
    ((' a big', ' red boat'), ('は', 'い'))
    """
    pieces = re.findall(r"\s*\S+", answer)
    if len(pieces) < count:
        pieces = re.findall(r"\s*\S", answer)
    count = max(1, min(count, len(pieces)))
    ends = [round(k * len(pieces) / count) for k in range(count + 1)]
    return tuple("".join(pieces[a:b]) for a, b in pairwise(ends))


def _scaled(values: Floats, floor: float) -> Floats:
    """Responses on a scale from 0, an unrelated answer, to 1, the original one."""
    return np.asarray(np.clip((values - floor) / (1 - floor), 0.0, 1.0))


def _as_chat(prompt: Prompt) -> str | Chat:
    return prompt if isinstance(prompt, str) else [{"role": role, "content": content} for role, content in prompt]
