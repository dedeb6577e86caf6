"""Hand-written citations for the tests of the views."""

from collections.abc import Mapping, Sequence
from typing import Any

from reagent.citations import (
    AnswerPart,
    CitationCost,
    Citations,
    Mark,
    PrunedContext,
    Redundancy,
    Screening,
    Sentence,
    Source,
)
from reagent.documents import Document, split_documents
from views.samples import HOSTILE

QUESTION = "When does the museum open, and what does a ticket cost?"
DOCUMENTS = {
    "clocks": "The museum of clocks opens at nine. Tickets cost four crowns.",
    "mill": "The old mill stands by the river.",
    "guide": "At nine the museum opens its doors. Bring a coat in winter.",
}
ANSWER = ("The museum opens at nine.", "A ticket costs four crowns.", "The sun rises in the east.")
# For each sentence of the answer, the marks of the sentences of the documents.
SOURCES: Sequence[Mapping[int, tuple[Mark, ...]]] = (
    {0: ("redundant", "sufficient"), 3: ("redundant", "sufficient")},
    {1: ("needed", "sufficient"), 0: ("needed",)},
    {},
)


def make_citations(
    documents: Mapping[str, str] | None = None,
    answer: Sequence[str] = ANSWER,
    sources: Sequence[Mapping[int, tuple[Mark, ...]]] = SOURCES,
    **changes: Any,
) -> Citations:
    """Citations in which a sentence with marks costs 5 nats, and any other nothing."""
    texts = tuple(Document(name, text) for name, text in (DOCUMENTS if documents is None else documents).items())
    sentences = tuple(Sentence(*s, texts[s.document].text[s.start : s.end]) for s in split_documents(texts))
    parts, at = [], 0
    for text, marks in zip(answer, sources, strict=True):
        parts.append(_part(text, at, marks, sentences, len(texts)))
        at += len(text) + 1
    union = {index: marks for one in reversed(sources) for index, marks in one.items()}
    kept = tuple(sorted(union))[:2]
    fields: dict[str, Any] = {
        "question": QUESTION,
        "answer": " ".join(answer),
        "prompt": "…",
        "documents": texts,
        "sentences": sentences,
        "whole": _part(" ".join(answer), 0, union, sentences, len(texts)),
        "parts": tuple(parts),
        "pruned": PrunedContext(tuple(texts[sentences[i].document] for i in kept[:1]), kept, 0.6, True, None),
        "screening": None,
        "model": {"id": "smollm2", "revision": "r1", "dtype": "float32", "backend": "torch"},
        "removal": "delete",
        "replacer": None,
        "seed": 3,
        "cost": CitationCost(34, 5000, 1.5),
    }
    return Citations(**(fields | changes))


def _part(
    text: str, start: int, marks: Mapping[int, tuple[Mark, ...]], sentences: Sequence[Sentence], documents: int
) -> AnswerPart:
    same = tuple(index for index, own in marks.items() if "redundant" in own)

    def source(index: int) -> Source:
        own = marks.get(index, ())
        others = tuple(i for i in same if i != index) if index in same else ()
        effect = 5.0 if own else 0.0
        return Source(index, 0.8 if own else 0.0, effect, 0.25, effect, 0.25, own, others)

    def document(number: int) -> Source:
        inside = [index for index in marks if sentences[index].document == number]
        return Source(number, 0.8 if inside else 0.0, 5.0, None, 5.0, None, ("needed",) if inside else (), ())

    ranked = sorted((source(i) for i in range(len(sentences))), key=lambda one: -one.importance)
    redundancies = (Redundancy(same, 5.0, None),) if len(same) > 1 else ()
    total = 10.0 if marks else 0.3
    return AnswerPart(
        start=start,
        end=start + len(text),
        text=text,
        logprob=-1.0,
        total=total,
        total_stderr=None,
        from_documents=bool(marks),
        documents=tuple(document(i) for i in range(documents)),
        sentences=tuple(ranked),
        redundancies=redundancies,
    )


def one_sentence() -> Citations:
    return make_citations(answer=ANSWER[1:2], sources=SOURCES[1:2])


def unsupported() -> Citations:
    """No sentence of the answer is from the documents."""
    return make_citations(
        answer=ANSWER[2:], sources=[{}], pruned=PrunedContext((), (), 0.0, True, None), screening=Screening((2,), 0.1)
    )


def long_document() -> Citations:
    """A document of forty sentences; the twentieth is cited."""
    text = " ".join(f"Sentence number {i} says nothing about the question that was asked." for i in range(40))
    return make_citations({"long": text, "short": "One more."}, ANSWER[:1], [{20: ("needed", "sufficient")}])


def many_scripts() -> Citations:
    documents = {
        "हिन्दी": "संग्रहालय सुबह नौ बजे खुलता है। टिकट चार रुपये का है।",
        "العربية": "يفتح المتحف في التاسعة صباحا. تكلف التذكرة أربعة دنانير 👩🏽‍🏫.",
        "中文": "博物馆上午九点开门。门票四元。",
    }
    return make_citations(
        documents, ("يفتح المتحف في التاسعة.", "博物馆九点开门。"), [{2: ("needed",)}, {4: ("needed",)}]
    )


def hostile_citations() -> Citations:
    """Markup and escape sequences in every text."""
    return make_citations(
        {HOSTILE: HOSTILE, "b": "<img src=x onerror=alert(1)>. <b>bold</b>"},
        (HOSTILE,),
        [{0: ("needed",)}],
        question=HOSTILE,
        model={"id": HOSTILE, "revision": None, "dtype": "x", "backend": "x"},
        removal=HOSTILE,
        replacer={"id": HOSTILE},
        pruned=PrunedContext((Document(HOSTILE, HOSTILE),), (0,), 0.1, False, HOSTILE),
    )


def every_citation() -> dict[str, Citations]:
    return {
        "several": make_citations(),
        "one": one_sentence(),
        "unsupported": unsupported(),
        "long": long_document(),
        "scripts": many_scripts(),
        "hostile": hostile_citations(),
    }
