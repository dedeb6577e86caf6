"""`summarize`: which words matter on average over many explanations."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import regex

from reagent.bench.store import Store
from reagent.data.readers import read_text
from reagent.data_summary import Summary, SummaryWord, WordExample
from reagent.errors import FileError, InputError, UnknownNameError
from reagent.explanation import Explanation, load
from reagent.request import check_whole
from reagent.segmentation import UNITS
from reagent.studies.effects import mean_effect

EXAMPLES = 3
CONTEXT = 60  # characters before and after an example
_EDGES = regex.compile(r"^[\s\p{P}]+|[\s\p{P}]+$")


def summarize(explanations: Any, unit: str = "word", least: int = 2, examples: int = EXAMPLES) -> Summary:
    """Which words matter on average over many explained prompts?

    `explanations` are explanations, or the paths of files of them: JSON, JSON lines, or the results of
    `reagent bench explain`. Words in fewer than `least` prompts are left out. Explanations of other units than tokens
    keep their units.

    >>> from reagent.api.explain import explain
    >>> from reagent.testing import mentions
    >>> whys = [explain(mentions("w5"), f"w1 w5 {word}", target=" w0") for word in ("w2", "w3")]
    >>> summarize(whys).words[0].text
    'w5'
    """
    if unit not in UNITS:
        raise UnknownNameError("unit", unit, UNITS)
    words = _Words(check_whole("examples", examples, 0))
    for why in read_explanations(explanations):
        words.add(why, unit)
    return words.summarize(unit, check_whole("least", least, 1))


def read_explanations(source: Any) -> Iterator[Explanation]:
    """Explanations from objects and files, one after another."""
    if isinstance(source, str | Path | Explanation):
        source = [source]
    if not isinstance(source, Iterable):
        raise InputError(f"give explanations or files of them, got a {type(source).__name__}")
    for one in source:
        if isinstance(one, Explanation):
            yield one
        elif isinstance(one, str | Path):
            yield from _read_file(Path(one))
        else:
            raise InputError(f"give explanations or files of them, got a {type(one).__name__}")


def _read_file(path: Path) -> Iterator[Explanation]:
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        for number, line in enumerate(read_text(path).split("\n"), 1):
            if line.strip():
                yield _parse(line, f"{path.name}, line {number}")
    elif path.suffix.lower() == ".json":
        yield load(path)
    else:
        with Store.open(path) as store:
            yield from (cell.explanation for cell in store.cells() if cell.explanation is not None)


def _parse(line: str, where: str) -> Explanation:
    try:
        return Explanation.from_dict(json.loads(line))
    except FileError as error:
        raise FileError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where} is not JSON ({error}): give one explanation per line") from error


@dataclass
class _Word:
    """What is known about one word."""

    texts: Counter[str] = field(default_factory=Counter)
    scores: list[float] = field(default_factory=list)  # one for each prompt that has it
    effects: list[float] = field(default_factory=list)
    examples: list[WordExample] = field(default_factory=list)


@dataclass
class _Words:
    """Collects the words of explanations."""

    most: int  # examples of each word
    prompts: int = 0
    words: defaultdict[str, _Word] = field(default_factory=lambda: defaultdict(_Word))
    units: Counter[str | None] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)

    def add(self, why: Explanation, unit: str) -> None:
        shown = why.aggregate(unit) if why.unit == "token" else why
        main, row = (shown, shown.focus) if "index" in shown.target else (shown.whole(), 0)
        places = defaultdict[str, list[int]](list)
        for i, token in enumerate(main.input):
            if not token.protected and (key := _EDGES.sub("", token.text).casefold()):  # not punctuation alone
                places[key].append(i)
        for key, own in places.items():
            self._add_word(self.words[key], main, row, own)
        self.prompts += 1
        self.units[why.effect_unit] += 1
        self.names[shown.unit] += 1
        self.models[str(why.model.get("id"))] += 1
        self.methods[" ".join(str(why.method[name]) for name in ("id", "preset") if why.method.get(name))] += 1

    def _add_word(self, word: _Word, why: Explanation, row: int, places: Sequence[int]) -> None:
        scores = why.scores[row]
        best = max(places, key=scores.__getitem__)
        score = min(1.0, sum(scores[i] for i in places))
        effect = None if why.effects is None else sum(why.effects[row][i] for i in places)
        word.texts[_EDGES.sub("", why.input[best].text)] += 1
        word.scores.append(score)
        word.effects += [] if effect is None else [effect]
        start, end = why.input[best].start, why.input[best].end
        example = WordExample(
            prompt=self.prompts,
            before=_tail(why.prompt[:start]),
            word=why.prompt[start:end],
            after=_head(why.prompt[end:]),
            answer=why.completion,
            score=score,
            effect=effect,
        )
        word.examples = sorted([*word.examples, example], key=lambda one: -one.score)[: self.most]

    def summarize(self, unit: str, least: int) -> Summary:
        if not self.prompts:
            raise InputError("there is nothing to summarize: give at least one explanation")
        if len(self.units) > 1:
            names = ", ".join(str(name) for name in self.units)
            raise InputError(f"the explanations have effects in different units ({names}): summarize them separately")
        total = sum(sum(word.scores) for word in self.words.values()) or 1.0
        (effect_unit,) = self.units
        words = [
            SummaryWord(
                text=word.texts.most_common(1)[0][0],
                prompts=len(word.scores),
                importance=sum(word.scores) / total,
                score=float(np.mean(word.scores)),
                effect=mean_effect(word.effects) if word.effects else None,
                examples=tuple(word.examples),
            )
            for word in self.words.values()
            if len(word.scores) >= least
        ]
        return Summary(
            unit=self.names.most_common(1)[0][0] if len(self.names) == 1 else unit,
            prompts=self.prompts,
            least=least,
            effect_unit=effect_unit,
            models=tuple(self.models),
            methods=tuple(self.methods),
            words=tuple(sorted(words, key=lambda word: -word.importance)),
        )


def _tail(text: str) -> str:
    return text if len(text) <= CONTEXT else "…" + text[-CONTEXT:]


def _head(text: str) -> str:
    return text if len(text) <= CONTEXT else text[:CONTEXT] + "…"
