"""`cite`: from a question and documents to an answer with its sources."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reagent.api.cost import CostMeter
from reagent.api.noise import Noise, measure_noise
from reagent.api.prepare import note_control_tokens, read_control_tokens, stream_to
from reagent.case import Case, Floats
from reagent.citations import (
    AnswerPart,
    CitationCost,
    Citations,
    PrunedContext,
    Redundancy,
    Screening,
    Sentence,
    Source,
)
from reagent.documents import (
    DOCUMENT_TEMPLATE,
    PLAIN_ENDING,
    TEMPLATE,
    Document,
    Layout,
    check_templates,
    layout_prompt,
    read_documents,
)
from reagent.errors import EmptyGenerationError, InputError
from reagent.explanation import Token
from reagent.methods.base import ProgressCallback, no_progress
from reagent.methods.citation import PRUNED_NATS, PRUNED_SHARE, SourceSearch
from reagent.methods.probe_set import DRAWS, ProbeSet
from reagent.methods.screening import MANY_UNITS, screen
from reagent.models.base import HasChatTemplate, Model, has_chat_template, require_logprobs
from reagent.models.load import load_model
from reagent.removal import check_removal, make_remover, require_removal
from reagent.replacers import Replacer, choose_automatic, make_replacer
from reagent.replacers.base import no_proposals
from reagent.request import LARGEST_SEED, check_control_tokens, check_new_tokens, check_texts, check_whole
from reagent.segmentation import assign, split_sentences

MAX_NEW_TOKENS = 64
EXTRA_PROBES = 64  # for redundant sources and the smallest context
SCREENED_TIMES = 3  # how often the screen reads each of many sentences, at most


@dataclass(frozen=True, kw_only=True)
class CiteRequest:
    """A checked request. `build` makes one from user input."""

    question: str
    documents: tuple[Document, ...]
    answer: str | None
    template: str
    document_template: str
    max_new_tokens: int
    removal: str
    replacer: str | Replacer | None
    probes: int | None
    seed: int
    control_tokens: str = "keep"

    @classmethod
    def build(
        cls,
        question: str,
        documents: Any,
        *,
        answer: str | None = None,
        template: str = TEMPLATE,
        document_template: str = DOCUMENT_TEMPLATE,
        max_new_tokens: int = MAX_NEW_TOKENS,
        removal: str | None = None,
        replacer: str | Replacer = "auto",
        probes: int | None = None,
        seed: int = 0,
        control_tokens: str = "keep",
    ) -> "CiteRequest":
        """Check every argument of `reagent.cite`."""
        if question is None or (isinstance(question, str) and not question.strip()):
            raise InputError("`question` is empty: give some text")
        check_texts(question=question, answer=answer)
        if answer is not None and not answer.strip():
            raise InputError("`answer` is empty: give some text, or leave it out and the model writes it")
        check_templates(template, document_template)
        chosen = removal or ("delete" if replacer == "auto" else "replace")
        check_removal(chosen)
        if chosen != "replace" and replacer != "auto":
            raise InputError(
                f"removal {chosen!r} replaces nothing: leave out the replacer, or choose removal 'replace'"
            )
        if chosen == "replace" and replacer != "auto":
            make_replacer(replacer)
        least = DRAWS if chosen == "replace" else 1  # each text is drawn several times
        return cls(
            question=question,
            documents=read_documents(documents),
            answer=None if answer is None else answer.strip(),
            template=template,
            document_template=document_template,
            max_new_tokens=check_new_tokens(max_new_tokens),
            removal=chosen,
            replacer=replacer if chosen == "replace" else None,
            probes=None if probes is None else check_whole("probes", probes, least),
            seed=check_whole("seed", seed, 0, LARGEST_SEED),
            control_tokens=check_control_tokens(control_tokens),
        )

    def layout(self, documents: Sequence[Document] | None = None) -> Layout:
        """The prompt of these documents, by default of all."""
        chosen = self.documents if documents is None else documents
        return layout_prompt(self.question, chosen, self.template, self.document_template)


def cite(
    model: Any,
    question: str,
    documents: Any,
    answer: str | None = None,
    *,
    template: str = TEMPLATE,
    document_template: str = DOCUMENT_TEMPLATE,
    max_new_tokens: int = MAX_NEW_TOKENS,
    removal: str | None = None,
    replacer: str | Replacer = "auto",
    probes: int | None = None,
    seed: int = 0,
    control_tokens: str = "keep",
    on_progress: ProgressCallback | None = None,
    on_answer: Callable[[str], None] | None = None,
) -> Citations:
    """Which documents and sentences does the answer of `model` to `question` come from?

    Args:
        model: what `load_model` returns, or anything that it accepts.
        question: the question.
        documents: a list of texts, a mapping of ids to texts, or a list of objects with a text, such as documents of
            LangChain (`page_content`), LlamaIndex (`text`) or Haystack (`content`).
        answer: explain this answer instead of the model's own.
        template: the prompt, with the fields `{documents}` and `{question}`. A model with a chat template reads it
            as a message of the user.
        document_template: one document in the prompt, with the fields `{text}`, `{number}` and `{id}`.
        max_new_tokens: maximum length of the model's own answer.
        removal: "delete" (the default), "mask" or "replace": how sentences are removed.
        replacer: for removal "replace": an id of `reagent replacers`, or an instance.
        probes: at most this number of probes. By default, every sentence is removed alone and kept alone; of many
            sentences, those that can matter (see `methods/screening.py`).
        seed: for all random draws.
        control_tokens: as in `explain`.
        on_progress: called with a `Progress`.
        on_answer: called with the answer before its sources are measured.

    >>> from reagent.testing import ScriptedModel
    >>> words = "Ann Bob left. slept. Who? Document 1: 2: Answer:".split()
    >>> knows = lambda ids: ((ids[:, :-1] == 0) & (ids[:, 1:] == 2)).any(1)  # "Ann left."
    >>> scripted = ScriptedModel(words, lambda ids: 9.0 * knows(ids)[:, None] * (np.arange(9) == 0))
    >>> citations = cite(scripted, "Who?", ["Bob slept.", "Ann left."], "Ann", template="{documents} {question}")
    >>> [citations.documents[source.index].text for source in citations.whole.documents]
    ['Ann left.', 'Bob slept.']
    """
    request = CiteRequest.build(
        question,
        documents,
        answer=answer,
        template=template,
        document_template=document_template,
        max_new_tokens=max_new_tokens,
        removal=removal,
        replacer=replacer,
        probes=probes,
        seed=seed,
        control_tokens=control_tokens,
    )
    return run(load_model(model), request, on_progress, on_answer)


def run(
    model: Model,
    request: CiteRequest,
    on_progress: ProgressCallback | None = None,
    on_answer: Callable[[str], None] | None = None,
) -> Citations:
    """Answer a checked request."""
    require_removal(model, request.removal, "cite")
    require_logprobs(model, "cite")
    model = read_control_tokens(model, request.control_tokens)
    layout = request.layout()
    given = None if request.answer is None else f" {request.answer}"
    try:
        case, offset = _read(stream_to(model, on_answer), layout.prompt, given, request.max_new_tokens)
    except EmptyGenerationError:
        raise InputError(
            "the model gives no answer to this question: give one as `answer`, or another `template`"
        ) from None
    controls = note_control_tokens(model, case, given)
    if on_answer is not None:
        on_answer(case.completion.strip())
    meter = CostMeter(model)
    proposing, measuring = np.random.default_rng(request.seed).spawn(2)
    report = on_progress or no_progress
    case = case.without_output_removal().with_logprobs(model)
    noise = measure_noise(model, case)
    grouped, sentence_of = _group(case, layout, offset)
    values, prompt = grouped.values, case.prompt
    screening = None
    if request.probes is None and not _only_counts(model):
        case, screening = _screen(model, case, grouped, sentence_of, report)
        grouped, sentence_of = _group(case, layout, offset)
    replacer = _make_replacer(request, model)
    proposals = meter.measure(lambda: replacer.propose(model, case, proposing)) if replacer else no_proposals(case)
    remover = make_remover(request.removal, model, grouped, proposals.grouped(grouped, measuring))
    sentences = [sentence_of[unit] for unit in remover.free]  # of each free unit
    documents: list[list[int]] = [[] for _ in request.documents]
    for unit, sentence in enumerate(sentences):
        documents[layout.sentences[sentence].document].append(unit)
    most = 1 + 2 * len(sentences) + 2 * len(documents) + EXTRA_PROBES
    budget = request.probes or most * (DRAWS if remover.is_random else 1)
    if request.probes is None and _only_counts(model) and len(sentences) >= MANY_UNITS:
        budget += SCREENED_TIMES * len(sentences) + EXTRA_PROBES  # the screen, if all sentences stay
    probes = ProbeSet(remover, grouped, budget, measuring, report)
    search = SourceSearch(probes, documents)
    search.run()
    if _only_counts(model):  # an upper bound: all probes are used
        unused = measuring.random((probes.remaining, len(sentences))) < 0.5
        probes.measure(unused[unused.any(1)])
    builder = _Builder(request, layout, grouped, values, search, sentences, screening, controls, noise)
    pruned = _prune(model, request, builder, case)
    return builder.build(model, replacer, prompt, pruned, meter)


def _read(model: Model, prompt: str, answer: str | None, max_new_tokens: int) -> tuple[Case, int]:
    """Prompt and answer as tokens, and where the prompt begins in the text that the model reads.

    An answer has the white space that follows a plain prompt; a chat template has its own.
    """
    if has_chat_template(model):
        assert isinstance(model, HasChatTemplate)
        stripped = None if answer is None else answer.strip()
        case = model.chat([{"role": "user", "content": prompt}], stripped, max_new_tokens)
        offset = case.messages[-1].start
        if case.prompt[offset : offset + len(prompt)].rstrip() != prompt.rstrip():
            raise InputError("the chat template changes the text of the message: give another `template`")
        return case, offset
    return model.case(prompt + PLAIN_ENDING, answer, max_new_tokens), 0


def _group(case: Case, layout: Layout, offset: int) -> tuple[Case, dict[int, int]]:
    """The case with the sentences of documents and answer as units, and the sentence of each input unit."""
    spans = [(start + offset, end + offset) for start, end in layout.spans]
    groups = assign([(token.start, token.end) for token in case.input], spans, case.prompt)
    outputs = assign(
        [(token.start, token.end) for token in case.output], split_sentences(case.completion), case.completion
    )
    grouped = case.grouped(groups).with_output_groups(outputs)
    starts = grouped.unit_starts[: len(grouped.input)].tolist()
    first_token = np.cumsum([0, *(len(token.ids) for token in case.input)]).tolist()
    group_at = dict(zip(first_token, groups, strict=False))
    sentence_of = {unit: group for unit, start in enumerate(starts) if (group := group_at[start]) is not None}
    return grouped, sentence_of


def _screen(
    model: Model, case: Case, grouped: Case, sentence_of: Mapping[int, int], on_progress: ProgressCallback
) -> tuple[Case, Screening | None]:
    """The case without the sentences that cannot matter, and what is known about them; of a few sentences, all stay."""
    screened = screen(model, grouped, near=0, on_progress=on_progress)
    if screened.kept.all():
        return case, None
    absent = np.isin(grouped.unit_of, screened.discarded)[case.unit_starts[: len(case.input)]]
    kept = tuple(token for token, is_absent in zip(case.input, absent, strict=True) if not is_absent)
    discarded = tuple(sentence_of[unit] for unit in screened.discarded.tolist())
    return replace(case, input=kept).with_logprobs(model), Screening(discarded, float(screened.joint.sum()))


def _make_replacer(request: CiteRequest, model: Model) -> Replacer | None:
    if request.replacer is None:
        return None
    return make_replacer(choose_automatic(model) if request.replacer == "auto" else request.replacer)


def _prune(model: Model, request: CiteRequest, builder: "_Builder", case: Case) -> PrunedContext:
    """The smallest context, and what the answer loses in the prompt that is made of it."""
    units = builder.search.prune(builder.logprob)
    kept = [builder.sentences[unit] for unit in units]
    documents = _keep_sentences(request.documents, builder.layout, kept)
    prompt = request.layout(documents).prompt
    shorter, _ = _read(model, prompt, case.completion, request.max_new_tokens)
    effect = builder.logprob - sum(token.logprob or 0.0 for token in shorter.with_logprobs(model).output)
    total = builder.search.total(builder.search.whole).drop
    again = None
    if request.answer is None and not _only_counts(model):
        with suppress(EmptyGenerationError):
            again = _read(model, prompt, None, request.max_new_tokens)[0].completion.strip()
    allowed = max(2 * PRUNED_SHARE * total, 2 * PRUNED_NATS)
    return PrunedContext(documents, tuple(kept), effect, effect <= allowed, again)


def _keep_sentences(documents: Sequence[Document], layout: Layout, kept: Sequence[int]) -> tuple[Document, ...]:
    texts: dict[int, str] = {}
    for i in kept:
        number, start, end = layout.sentences[i]
        texts[number] = texts.get(number, "") + documents[number].text[start:end]
    return tuple(Document(documents[number].id, text.strip()) for number, text in texts.items())


@dataclass(frozen=True)
class _Builder:
    """Makes Citations from what was measured."""

    request: CiteRequest
    layout: Layout
    case: Case  # its units are sentences, without those that were set aside
    values: Floats  # log-probabilities of the sentences of the answer, with all documents
    search: SourceSearch
    sentences: Sequence[int]  # of each free unit
    screening: Screening | None
    control_tokens: tuple[str, ...]
    noise: Noise | None

    @property
    def logprob(self) -> float:
        """Log-probability of the whole answer, with all documents."""
        return float(self.values.sum())

    def build(
        self, model: Model, replacer: Replacer | None, prompt: str, pruned: PrunedContext, meter: CostMeter
    ) -> Citations:
        texts = [self.request.documents[s.document].text[s.start : s.end] for s in self.layout.sentences]
        before, after = meter.before, meter.meter
        return Citations(
            question=self.request.question,
            answer=self.case.completion.strip(),
            prompt=prompt,
            documents=self.request.documents,
            sentences=tuple(Sentence(*s, text) for s, text in zip(self.layout.sentences, texts, strict=True)),
            whole=self._part(self.search.whole, self.case.output, self.logprob),
            parts=tuple(
                self._part(t, [unit], float(value), slice(t, t + 1))
                for t, (unit, value) in enumerate(zip(self.case.output, self.values, strict=True))
            ),
            pruned=pruned,
            screening=self.screening,
            model=model.info,
            removal=self.request.removal,
            replacer=None if replacer is None else replacer.info,
            control_tokens=self.control_tokens,
            noise=None if self.noise is None else self.noise.per_token(self.case),
            seed=self.request.seed,
            cost=CitationCost(
                forward_passes=after.forward_passes - before.forward_passes,
                tokens=after.tokens - before.tokens,
                seconds=meter.seconds,
                requests=after.requests - before.requests,
            ),
        )

    def _part(self, target: int, units: Sequence[Token], logprob: float, outputs: slice = slice(None)) -> AnswerPart:
        noise = 0.0 if self.noise is None else self.noise.part_error(self.case, outputs)
        measured = self.search.part(target, logprob)
        text = self.case.completion[units[0].start : units[-1].end]
        skipped = len(self.case.completion) - len(self.case.completion.lstrip())
        start = units[0].start - skipped + len(text) - len(text.lstrip())
        return AnswerPart(
            start=start,
            end=start + len(text.strip()),
            text=text.strip(),
            logprob=logprob,
            total=measured.total.drop,
            total_stderr=_with_noise(measured.total.stderr, noise),
            from_documents=measured.from_documents,
            documents=tuple(_noisy_source(source, noise) for source in measured.documents),
            sentences=(
                *(self._renumber(_noisy_source(source, noise)) for source in measured.sentences),
                *self._discarded(),
            ),
            redundancies=tuple(
                Redundancy(tuple(self.sentences[i] for i in r.sentences), r.effect, _with_noise(r.stderr, noise))
                for r in measured.redundancies
            ),
        )

    def _discarded(self) -> Iterator[Source]:
        """The sentences that were set aside: nothing was measured for each of them alone."""
        for index in self.screening.discarded if self.screening else ():
            yield Source(index, 0.0, None, None, None, None, (), ())

    def _renumber(self, source: Source) -> Source:
        """With indices of sentences instead of free units."""
        partners = tuple(self.sentences[i] for i in source.redundant_with)
        return replace(source, index=self.sentences[source.index], redundant_with=partners)


def _only_counts(model: Model) -> bool:
    """Whether this model stands in for another to count passes."""
    from reagent.models.dry_run import DryRunModel

    return isinstance(model, DryRunModel)


def _with_noise(stderr: float | None, noise: float) -> float | None:
    return None if stderr is None else float(np.hypot(stderr, noise))


def _noisy_source(source: Source, noise: float) -> Source:
    stderr, alone = _with_noise(source.stderr, noise), _with_noise(source.alone_stderr, noise)
    return replace(source, stderr=stderr, alone_stderr=alone)
