"""Sources of answers on planted readers: the words that the answer depends on are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import reagent
from reagent.api.cite import CiteRequest
from reagent.case import Floats, Ids
from reagent.citations import Citations
from reagent.documents import load_documents, read_documents
from reagent.errors import EmptyGenerationError, FileError, InputError
from reagent.models.base import Model
from reagent.models.dry_run import DryRunModel
from reagent.schemas import read_schema
from reagent.testing import ScriptedModel

FACTS = ("red", "blue", "green", "old", "new", "big", "tall")
WORDS = ["yes.", "also.", "no.", *(f"{word}." for word in FACTS), *(f"{n}:" for n in range(1, 12)), "Document"]
WORDS += ["Answer", "Answer:", "Question:", "Why?", "the", "question", "with", "help", "of", "documents."]
YES, ALSO, NO = 0, 1, 2


def reader(yes: Sequence[set[str]], also: Sequence[set[str]] = ()) -> ScriptedModel:
    """Says "yes." while all words of one of the sets are in the context, then "also." in the same way."""

    def holds(context: Ids, sets: Sequence[set[str]]) -> Floats:
        there = [[(context == WORDS.index(f"{word}.")).any(1) for word in words] for words in sets]
        return np.any([np.all(some, axis=0) for some in there], axis=0).astype(float)

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, NO] = 4.0
        second = (context[:, -1] == YES) & bool(also)
        table[:, YES] = np.where(second, 0.0, 9.0 * holds(context, yes))
        if also:
            table[:, ALSO] = np.where(second, 9.0 * holds(context, also), 0.0)
        return table

    return ScriptedModel(WORDS, logits)


DOCUMENTS = ["red. blue.", "green. old.", "new. big."]


def cite(model: Any, answer: str = "yes.", documents: Any = DOCUMENTS, **options: Any) -> Citations:
    return reagent.cite(model, "Why?", documents, answer, **options)


def cited(citations: Citations, part: int | None = None) -> list[str]:
    return [citations.sentences[source.index].text.strip() for source in citations.part(part).cited]


def marks(citations: Citations, part: int | None = None) -> dict[str, tuple[str, ...]]:
    sources = citations.part(part).cited
    return {citations.sentences[source.index].text.strip(): source.marks for source in sources}


def test_a_fact_that_is_stated_once_is_needed_and_sufficient() -> None:
    citations = cite(reader([{"green"}]))
    assert marks(citations) == {"green.": ("needed", "sufficient")}
    first = citations.whole.documents[0]
    assert (first.index, first.marks) == (1, ("needed", "sufficient"))
    assert [source.index for source in citations.whole.documents if source.marks] == [1]


def test_effect_and_alone_are_what_removal_and_keeping_cost() -> None:
    model = reader([{"green"}])
    citations = cite(model)
    full, without = (
        model.case(text + "\nAnswer:", " yes.").with_logprobs(model).output[0].logprob
        for text in (_prompt("green. "), _prompt(""))
    )
    assert full is not None
    assert without is not None
    source = citations.whole.sentences[0]
    assert source.effect == pytest.approx(full - without, abs=1e-3)
    assert source.alone == pytest.approx(full - without, abs=1e-3)
    assert source.stderr == 0
    assert citations.whole.logprob == pytest.approx(full)


def _prompt(green: str) -> str:
    return (
        "Answer the question with the help of the documents.\n\nDocument 1:\nred. blue.\n\n"
        f"Document 2:\n{green}old.\n\nDocument 3:\nnew. big.\n\nQuestion: Why?"
    )


def test_a_fact_that_is_stated_twice_is_redundant() -> None:
    citations = cite(reader([{"red"}, {"big"}]))
    assert marks(citations) == {"red.": ("redundant", "sufficient"), "big.": ("redundant", "sufficient")}
    (redundancy,) = citations.whole.redundancies
    assert [citations.sentences[i].text.strip() for i in redundancy.sentences] == ["red.", "big."]
    assert redundancy.effect > 3
    partners = {source.index: source.redundant_with for source in citations.whole.documents}
    assert (partners[0], partners[2], partners[1]) == ((2,), (0,), ())


def test_facts_that_need_each_other_are_needed_but_not_sufficient() -> None:
    citations = cite(reader([{"blue", "new"}]))
    assert marks(citations) == {"blue.": ("needed",), "new.": ("needed",)}


def test_an_answer_that_needs_no_document_is_not_from_the_documents() -> None:
    always = ScriptedModel(WORDS, lambda context: np.tile(9.0 * (np.arange(len(WORDS)) == YES), (len(context), 1)))
    citations = cite(always)
    assert not citations.whole.from_documents
    assert cited(citations) == []
    assert citations.prune().sentences == ()
    assert citations.prune().keeps_answer
    assert "not from the documents" in citations.to_markdown()


def test_each_sentence_of_the_answer_has_its_own_sources() -> None:
    citations = cite(reader([{"red"}], [{"big"}]), "yes. also.")
    assert [part.text for part in citations.parts] == ["yes.", "also."]
    assert [cited(citations, i) for i in (0, 1)] == [["red."], ["big."]]
    assert set(cited(citations)) == {"red.", "big."}
    assert citations.footnotes() == {0: 1, 5: 2}
    assert [citations.answer[part.start : part.end] for part in citations.parts] == ["yes.", "also."]


def test_sources_of_different_sentences_are_not_redundant() -> None:
    """Each keeps half of the whole answer alone, but they do not make up for each other."""
    citations = cite(reader([{"red"}], [{"big"}]), "yes. also.")
    assert marks(citations) == {"red.": ("needed",), "big.": ("needed",)}
    assert citations.whole.redundancies == ()
    assert [source.redundant_with for source in citations.whole.documents] == [(), (), ()]


def test_redundant_sources_of_one_sentence_are_redundant_for_the_whole_answer() -> None:
    citations = cite(reader([{"red"}, {"old"}], [{"big"}]), "yes. also.")
    assert [r.sentences for r in citations.whole.redundancies] == [(0, 3)]
    assert marks(citations)["big."] == ("needed",)
    assert {word for word, some in marks(citations).items() if "redundant" in some} == {"red.", "old."}
    (first,) = citations.parts[0].redundancies
    assert citations.whole.redundancies[0].effect == pytest.approx(first.effect, abs=0.01)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [([{"green"}], {"green."}), ([{"blue", "new"}], {"blue.", "new."}), ([{"red"}, {"big"}], None)],
)
def test_pruning_keeps_only_what_the_answer_needs(facts: list[set[str]], expected: set[str] | None) -> None:
    pruned = cite(reader(facts)).prune()
    kept = {word for document in pruned.documents for word in document.text.split()}
    assert kept in ([expected] if expected else [{"red."}, {"big."}])
    assert pruned.keeps_answer
    assert pruned.effect == pytest.approx(0, abs=0.01)
    assert pruned.answer is None  # the answer was given


def test_the_model_answers_again_from_the_pruned_context() -> None:
    citations = reagent.cite(reader([{"green"}]), "Why?", DOCUMENTS, max_new_tokens=1)
    assert citations.answer == "yes."
    assert citations.prune().answer == "yes."


@pytest.mark.parametrize("probes", [1, 3, 8, 20])
def test_probes_are_an_upper_limit(probes: int) -> None:
    model = reader([{"green"}])
    citations = cite(model, probes=probes)
    others = 2  # the unchanged text, and the check of the pruned context
    assert citations.cost.forward_passes <= probes + others
    unmeasured = [source.effect for source in citations.whole.sentences].count(None)
    assert (unmeasured == 0) == (probes == 20)


def test_replacement_has_standard_errors() -> None:
    citations = cite(reader([{"green"}]), removal="replace", replacer="random", seed=1)
    source = citations.whole.sentences[0]
    assert citations.sentences[source.index].text.strip() == "green."
    assert citations.whole.total_stderr is not None
    assert any((other.stderr or 0) > 0 for other in citations.whole.sentences) or source.stderr == 0
    assert citations.replacer is not None


def test_the_same_seed_gives_the_same_citations() -> None:
    one, two = (cite(reader([{"green"}]), removal="replace", replacer="random", seed=3).whole for _ in range(2))
    assert one == two


def test_progress_and_answer_are_reported() -> None:
    answers: list[str] = []
    done: list[int] = []
    reagent.cite(
        reader([{"green"}]),
        "Why?",
        DOCUMENTS,
        max_new_tokens=1,
        on_answer=answers.append,
        on_progress=lambda progress: done.append(progress.done),
    )
    assert answers[-1] == "yes."
    assert done == sorted(done)
    assert done[-1] > 10


def test_a_dry_run_is_an_upper_bound() -> None:
    model = reader([{"red"}, {"big"}])
    stand_in = DryRunModel(model)
    from reagent.api.cite import run

    run(stand_in, CiteRequest.build("Why?", DOCUMENTS, answer="yes."))
    assert cite(model).cost.forward_passes <= stand_in.meter.forward_passes


def test_many_sentences_are_screened_first(capsys: pytest.CaptureFixture[str]) -> None:
    filler = ["old. tall. " * 8] * 4
    citations = cite(reader([{"red"}, {"big"}]), documents=[*filler, "red. blue.", *filler, "new. big."])
    assert set(cited(citations)) == {"red.", "big."}
    assert citations.screening is not None
    assert len(citations.screening.discarded) > 100
    assert citations.screening.effect == pytest.approx(0, abs=0.01)
    assert all(citations.whole.source(i).effect is None for i in citations.screening.discarded)
    citations.show()
    shown = " ".join(capsys.readouterr().out.split())
    assert "sentences were set aside: without all of them the answer loses 0.0 nats" in shown


# --- files and views ---


def test_json_and_schema(tmp_path: Path) -> None:
    citations = cite(reader([{"red"}, {"big"}]))
    path = citations.save(tmp_path / "citations.json")
    assert Citations.load(path) == citations
    jsonschema.validate(citations.to_dict(), read_schema("citations"))
    with pytest.raises(
        FileError, match=r"this is a file of citations .*, not an explanation: read it with Citations.load"
    ):
        reagent.load(path)


def test_markdown_has_a_footnote_for_each_citation() -> None:
    text = cite(reader([{"red"}], [{"big"}]), "yes. also.").to_markdown()
    assert "yes.[^1] also.[^2]" in text
    assert "[^1]: 1: “red.” (needed, sufficient; removed −4.4 nats, alone 100 %)" in text
    assert "[^2]: 3: “big.”" in text


def test_the_terminal_shows_the_answer_with_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    cite(reader([{"red"}, {"big"}])).show()
    shown = capsys.readouterr().out
    assert "yes.¹ ²" in shown
    assert "redundant with [2]" in shown
    assert "1 of 6 sentences" in shown


def test_the_frame_has_a_row_for_each_part_and_sentence() -> None:
    frame = cite(reader([{"red"}], [{"big"}]), "yes. also.").to_frame()
    assert len(frame) == 3 * 6
    assert frame[frame["part"] == 1].iloc[0][["text", "document", "needed"]].tolist() == [" big.", "3", True]


# --- documents ---


@dataclass
class LangChainDocument:
    page_content: str
    metadata: dict[str, str]


@dataclass
class LlamaIndexNode:
    text: str
    id_: str


@dataclass
class HaystackDocument:
    content: str
    id: str


@pytest.mark.parametrize(
    "documents",
    [
        {"a": "red. blue.", "b": "green. old."},
        [LangChainDocument("red. blue.", {"source": "a"}), LangChainDocument("green. old.", {"source": "b"})],
        [LlamaIndexNode("red. blue.", "a"), LlamaIndexNode("green. old.", "b")],
        (HaystackDocument("red. blue.", "a"), HaystackDocument("green. old.", "b")),
        [{"id": "a", "text": "red. blue."}, {"id": "b", "page_content": "green. old."}],
    ],
)
def test_documents_of_other_libraries(documents: Any) -> None:
    citations = cite(reader([{"green"}]), documents=documents)
    assert [document.id for document in citations.documents] == ["a", "b"]
    assert citations.documents[citations.whole.documents[0].index].id == "b"


@pytest.mark.parametrize(
    ("question", "documents", "options", "message"),
    [
        ("", ["red."], {}, "`question` is empty"),
        ("  ", ["red."], {}, "`question` is empty"),
        (None, ["red."], {}, "`question` is empty"),
        ("Why?", ["red."], {"removal": "replace", "probes": 1}, "`probes` must be at least 3"),
        ("Why?", [], {}, "`documents` is empty"),
        ("Why?", "red.", {}, "put a single text into a list"),
        ("Why?", [3], {}, "document 1 has no text"),
        ("Why?", ["red.", " "], {}, "document 2 is empty"),
        ("Why?", {"a": "\ud800"}, {}, "document 'a' is not valid Unicode"),
        ("Why?", ["red."], {"answer": " "}, "`answer` is empty"),
        ("Why?", ["red."], {"template": "{documents}"}, "`template` must contain {question} exactly once"),
        ("Why?", ["red."], {"document_template": "x"}, "`document_template` must contain {text} exactly once"),
        ("Why?", ["red."], {"removal": "burn"}, "burn"),
        ("Why?", ["red."], {"removal": "delete", "replacer": "random"}, "replaces nothing"),
        ("Why?", ["red."], {"probes": 0}, "`probes` must be at least 1"),
        ("Why?", ["red."], {"max_new_tokens": "9"}, "`max_new_tokens` must be a whole number"),
    ],
)
def test_bad_input_is_one_clear_error(question: Any, documents: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        reagent.cite(reader([{"red"}]), question, documents, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_explain_names_cite_for_documents() -> None:
    with pytest.raises(InputError, match=r"reagent\.cite\(model, question, documents\)"):
        reagent.explain(reader([{"red"}]), "Why?", documents=["red."])


# --- real models ---


def test_a_model_without_a_chat_template(tiny_model: Model) -> None:
    documents = ["Ann left. Bob {slept}.", "It was {question} late."]
    citations = reagent.cite(tiny_model, "Who left?", documents, "Ann", template="{documents}\n{question}")
    assert citations.prompt == (
        "Document 1:\nAnn left. Bob {slept}.\n\nDocument 2:\nIt was {question} late.\nWho left?\nAnswer:"
    )
    assert len(citations.sentences) == 3


def test_the_embedded_model_cites_the_sentence_that_states_the_fact(smollm2: Model) -> None:
    documents = {
        "mill": "The old mill stands by the river. It was built of stone.",
        "clocks": "The museum of clocks opens at nine in the morning. Tickets cost four crowns.",
        "ferry": "The ferry crosses the lake every hour.",
    }
    citations = reagent.cite(
        smollm2, "When does the museum open?", documents, "The museum opens at nine in the morning."
    )
    assert citations.whole.from_documents
    first = citations.whole.cited[0]
    assert citations.sentences[first.index].text == "The museum of clocks opens at nine in the morning."
    assert "needed" in first.marks
    assert [document.id for document in citations.prune().documents] == ["clocks"]
    assert "<|im_start|>" in citations.prompt


# --- many sentences that each do a little ---


def counter(gain: float, first: float = 0.0) -> ScriptedModel:
    """Says "yes." the more, the more sentences of w1 to w59 are in the context; w0 counts `first`."""
    words = [*(f"w{n}." for n in range(60)), "Q?", "yes.", "Document", "Answer:", "1:"]

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(words)))
        others = sum((context == n).any(1) for n in range(1, 60))
        table[:, words.index("yes.")] = gain * others + first * (context == 0).any(1)
        return table

    return ScriptedModel(words, logits)


def cite_counter(model: ScriptedModel, count: int, **options: Any) -> Citations:
    text = " ".join(f"w{n}." for n in range(count))
    return reagent.cite(model, "Q?", [text], "yes.", template="{documents} {question}", **options)


def test_the_total_counts_sentences_that_were_set_aside() -> None:
    """Without all documents the answer is more likely, although one sentence supports it."""
    citations = cite_counter(counter(-0.2, first=8.0), 60)
    assert citations.screening is not None
    assert citations.whole.total < 0
    assert not citations.whole.from_documents


def test_a_part_from_many_sentences_is_not_called_foreign(capsys: pytest.CaptureFixture[str]) -> None:
    citations = cite_counter(counter(1.0), 9)
    assert citations.whole.from_documents
    assert citations.whole.cited == ()
    citations.show()
    for text in (capsys.readouterr().out, citations.to_markdown(), citations.to_html(), repr(citations)):
        assert "from many sentences" in text
    assert "not from the documents" not in citations.to_markdown()


def test_a_few_equal_sources_are_all_cited() -> None:
    """Each of five sentences carries a fifth: none has a mark, and none is left out."""
    whole = cite_counter(counter(0.6), 6).whole
    assert len(whole.cited) == 5
    assert {source.index for source in whole.cited} == {1, 2, 3, 4, 5}
    assert not any(source.marks for source in whole.cited)


def test_a_source_that_is_nearly_as_important_as_a_marked_one_is_cited() -> None:
    whole = cite_counter(counter(0.55, first=1.0), 5).whole
    assert whole.cited[0].marks == ("needed",)
    assert {source.index for source in whole.cited} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("gain", [0.5, 0.05])
def test_a_dry_run_is_an_upper_bound_of_a_screen(gain: float) -> None:
    model = counter(gain)
    stand_in = DryRunModel(model)
    cite_counter(stand_in, 60)
    assert cite_counter(model, 60).cost.forward_passes <= stand_in.meter.forward_passes


def test_a_number_of_probes_leaves_out_the_screen() -> None:
    citations = cite_counter(counter(0.5), 60, probes=5)
    assert citations.screening is None
    assert citations.cost.forward_passes <= 5 + 2  # the answer, and the pruned context


def test_a_model_that_does_not_answer_the_pruned_prompt_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader([{"green"}])
    case = type(model).case

    def answer_once(self: Any, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Any:
        if target is None and "red." not in prompt:
            raise EmptyGenerationError
        return case(self, prompt, target, max_new_tokens)

    monkeypatch.setattr(type(model), "case", answer_once)
    citations = reagent.cite(model, "Why?", DOCUMENTS, max_new_tokens=1)
    assert citations.pruned.sentences == (2,)
    assert citations.pruned.answer is None


def test_names_of_documents_are_escaped_and_valid(tmp_path: Path) -> None:
    name = "<img src=x>[a](javascript:1)"
    text = cite(reader([{"green"}]), documents={name: "red. green.", "b": "old."}).to_markdown()
    assert "<img" not in text.replace("\\<", "")
    with pytest.raises(InputError, match="the id of document 1 is not valid Unicode"):
        read_documents({"a\udcff": "red."})
    records = tmp_path / "records.jsonl"
    records.write_text('{"text": "One.\u2028Two."}\n', encoding="utf-8")
    assert load_documents([records])[0].text == "One.\u2028Two."
    records.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(FileError, match="is not JSON"):
        load_documents([records])


def test_noise_is_no_large_share_of_almost_nothing() -> None:
    """A word that changes the answer by a tenth of a nat is all that the documents do, but of no importance."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, YES] = 9.0
        table[:, NO] = 9.0 - 0.2 * (context == WORDS.index("red.")).any(1)
        return table

    whole = cite(ScriptedModel(WORDS, logits)).whole
    assert 0 < whole.total < 0.2
    assert not whole.from_documents
    assert max(source.importance for source in whole.sentences) < 0.1
    assert not any(source.marks for source in (*whole.sentences, *whole.documents))


def test_a_paraphrase_that_carries_less_is_redundant_too() -> None:
    """ "blue." makes up for "red." in part, and "green." hardly."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, NO] = 4.0
        worth = [
            (context == WORDS.index(word)).any(1) * nats
            for word, nats in (("red.", 9), ("blue.", 1.7), ("green.", 0.5))
        ]
        table[:, YES] = np.max(worth, axis=0)
        return table

    found = cite(ScriptedModel(WORDS, logits))
    red, blue = found.whole.source(0), found.whole.source(1)
    assert red.effect is not None
    assert blue.alone is not None
    assert red.effect > 0.6 * found.whole.total
    assert blue.alone < 0.4 * found.whole.total
    assert set(cited(found)) == {"red.", "blue."}
    assert [r.sentences for r in found.whole.redundancies] == [(0, 1)]
