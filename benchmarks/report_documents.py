"""The sections of docs/benchmarks.md about documents: sources of answers, and long contexts."""

from typing import Any

from report_tables import failures, interval, mean, table

QUALITY = {
    "exact sets": ("exact", 2),
    "precision": ("precision", 2),
    "recall": ("recall", 2),
    "from the documents": ("from_documents_right", 2),
    "recall at k": ("recall_at_k", 2),
}
COST = {"passes": ("forward_passes", 0), "tokens": ("tokens", 0), "CPU seconds": ("core_seconds", 1)}


def citations(results: dict[str, Any]) -> str:
    everything = _all_of(results["report"])
    names = QUALITY | COST
    overall = {
        method: [interval(row.get(key), digits) for key, digits in names.values()]
        + [interval(row.get("cite_minus_this", {}).get("exact"), 2)]
        for method, row in everything.items()
    }
    lines = [
        "## Sources of answers about documents",
        "",
        "`benchmarks/citations.py` asks which sentences the answers to the bundled questions about documents come from. All",
        "methods explain the same answers in the same prompts by the same sentences. `exact sets` is the share of questions",
        "for which exactly the planted sources are cited, and none if there is no source. `precision` and `recall` are those",
        "of the cited sentences. `from the documents` is the share of questions, also of those without a source, for which it",
        "is told correctly whether there is one. `recall at k` is the share of the k sources among the first k sentences.",
        "",
        "`cite` decides itself which sentences are sources. Each of the others gets one threshold for all questions, a number",
        "of nats, a share of the largest score, or both: that with the most exact sets on the split `choose`",
        f"({_questions(results['choose'])} questions about other topics). LIME and ContextCite share their random halves of the sentences,",
        "and one code scores the texts of all methods. `as many` means as many passes as `cite` took.",
        f"The tables compare the methods on the {_questions(results['report'])} questions that all of them answered. In parentheses: 95 % bootstrap",
        "intervals. `cite ahead by` is the mean paired difference in exact sets. Other programs ran on the machine, so that",
        "passes and tokens say more than CPU seconds.",
        "",
        *table("method", (*names, "cite ahead by"), overall),
        "",
        "Exact sets by condition. Documents `as they are` have about 10 sentences. `more mentions` state the fact at the end of",
        "so many other documents; `other collections` add their documents, so that there are about 40 sentences. In",
        "parentheses: with a threshold that was chosen on questions of the same condition; and, after `≤`, with the best",
        "threshold in hindsight, chosen on these very questions.",
        "",
        *_exact_sets_table(results["report"]),
        "",
        f"On the split `choose`, on which the rules of `cite` and the thresholds were chosen: {_on_choose(results['choose'])}.",
        *_by_kind(results.get("by_kind", {})),
        *_planted(results.get("cite_alone", {})),
        *_margins(results.get("margins", {})),
        *_removals(results.get("removals", {})),
    ]
    return "\n".join([*lines, *failures(results), ""])


def _all_of(sections: dict[str, Any]) -> dict[str, Any]:
    """The section of all questions together."""
    rows = sections.get("all questions") or next(iter(sections.values()))
    return {method: row for method, row in rows.items() if "exact" in row}


def _exact_sets_table(sections: dict[str, Any]) -> list[str]:
    rows = {method: [_exact_sets(section.get(method)) for section in sections.values()] for method in _all_of(sections)}
    return table("method", [f"{name} ({_questions({name: section})})" for name, section in sections.items()], rows)


def _by_kind(sections: dict[str, Any]) -> list[str]:
    if len(sections) < 2:
        return []
    head = "Exact sets by kind of question (`reagent.data.passages` describes the kinds), with the same thresholds:"
    return ["", head, "", *_exact_sets_table(sections)]


def _planted(conditions: dict[str, Any]) -> list[str]:
    """`cite` on all questions, by kind."""
    lines: list[str] = []
    for condition, kinds in conditions.items():
        rows = {
            f"{kind} ({row['cite']['exact']['count']})": [
                mean(row["cite"].get(key), digits) for key, digits in QUALITY.values()
            ]
            for kind, row in kinds.items()
        }
        lines += [
            "",
            f"`cite` on all questions of the split `report`, documents {condition}:",
            "",
            *table("kind (questions)", QUALITY, rows),
        ]
    return lines


def _margins(margins: dict[str, Any]) -> list[str]:
    """How far sources and other sentences are apart."""
    lines = [
        f"In the {row['questions']} questions with a source of the split `{split}`, the larger share of *removed* and *alone* is at least"
        f" {row['smallest_of_sources']:.2f} for every planted sentence, and at most {row['largest_of_others']:.2f} for every other one."
        for split, row in margins.items()
        if row
    ]
    return [line for text in lines for line in ("", text)]


def _removals(splits: dict[str, Any]) -> list[str]:
    if not splits:
        return []
    names = {"exact sets": ("exact", 2), "recall at k": ("recall_at_k", 2)} | COST
    lines = ["", "How sentences are removed (`removal=`), on the questions for which all three were measured:", ""]
    rows = {
        f"`{method.rpartition(' ')[2] if ',' in method else 'delete'}`, split `{split}` ({row['exact']['count']})": [
            mean(row.get(key), digits) for key, digits in names.values()
        ]
        for split in ("choose", "report")
        for method, row in splits.get(split, {}).items()
    }
    return [*lines, *table("removal (questions)", names, rows)]


def _questions(conditions: dict[str, Any]) -> int:
    """The number of questions of `cite`, in all conditions together."""
    return max(section["cite"]["exact"]["count"] for section in conditions.values())


def _on_choose(conditions: dict[str, Any]) -> str:
    return ", ".join(f"{method} {row['exact']['mean']:.2f}" for method, row in _all_of(conditions).items())


def _exact_sets(row: dict[str, Any] | None) -> str:
    if row is None or "exact" not in row:
        return "–"
    own = f"{row['own']['exact']:.2f}, " if "own" in row else ""
    hindsight = f" ({own}≤ {row['best']['exact']:.2f})" if "best" in row else ""
    return f"{row['exact']['mean']:.2f}{hindsight}"


def long_contexts(results: dict[str, Any]) -> str:
    names = {
        "sentence first": ("sentence_first", 2),
        "key word first": ("key_first", 2),
        "needle kept": ("needle_kept", 2),
        "kept": ("kept", 0),
        "of sentences": ("units", 0),
        "lost (nats)": ("effect", 2),
        "passes": ("forward_passes", 0),
        "tokens read": ("tokens_read", 0),
        "CPU seconds": ("core_seconds", 0),
        "peak memory, MB": ("peak_memory_mb", 0),
    }
    needles = {
        f"{int(length):,} ({len(row['depths'])}{row.get('note', '')})": [
            mean(row.get(key), digits) for key, digits in names.values()
        ]
        for length, row in results["needles"].items()
    }
    lines = [
        "## Long contexts",
        "",
        "`benchmarks/long_contexts.py` hides one sentence that answers a question at several depths of a document and explains",
        "the answer coarse to fine. The screen sets most sentences aside first; `lost` is what the answer loses without all",
        "of them. Other programs ran on the machine, so that passes and tokens say more than CPU seconds.",
    ]
    lines += ["", *table("tokens (depths)", names, needles)] if needles else []
    lines += _former_way(results["former"])
    lines += _recall({name: row for name, row in results["recall"].items() if name != "rows"})
    return "\n".join([*lines, ""])


def _recall(groups: dict[str, Any]) -> list[str]:
    """Which of the units that matter the screen kept."""
    rows = {
        f"{name}{f' ({count})' if (count := row.get('prompts')) else ''}": [
            f"{row['kept_of_them']} of {row['matter']}", f"{row['recall']:.1%}", f"{row['share_kept']:.1%}"
        ]
        for name, row in groups.items()
    }  # fmt: skip
    head = [
        "",
        "The screen alone. Planted facts matter, in scripted models and in the bundled questions about documents, with the",
        "documents of five other collections and with up to five mentions of the fact. In haystacks, those sentences matter that",
        "cost at least a tenth of what all cost, each deleted alone from the whole text.",
        "",
    ]
    return [*head, *table("prompts", ("kept of the units that matter", "recall", "kept of all units"), rows)]


def _former_way(results: dict[str, Any]) -> list[str]:
    names = {"with screening": "screened", "every sentence in the whole text": "former"}
    columns = {
        "rank of the sentence": "sentence_rank",
        "rank of the key word": "key_rank",
        "passes": "forward_passes",
        "tokens read": "tokens_read",
        "CPU seconds": "core_seconds",
        "peak memory, MB": "peak_memory_mb",
    }
    rows = {
        f"{name}{' (stopped)' if row.get('stopped') else ''}": [_number(row.get(column)) for column in columns.values()]
        for name, case in names.items()
        for row in results.get(case, ())[:1]
    }
    if not rows:
        return []
    lines = ["", "A document of 2,007 tokens, with screening and without (`screen=False`), in one run:", ""]
    return [*lines, *table("", columns, rows), *_times_faster(results)]


def _times_faster(results: dict[str, Any]) -> list[str]:
    if "times_core_seconds" not in results:
        return []
    stopped = any(row.get("stopped") for row in results["former"])
    least = "more than " if stopped else ""
    lines = [
        "",
        f"Without screening it takes {least}{results['times_core_seconds']:.1f} times the CPU time and {least}{results['times_tokens_read']:.1f} times the tokens.",
    ]
    if stopped:
        lines.append("It was stopped before its end, so that these are lower bounds.")
    if (estimate := results.get("estimated_core_seconds_of_former_at_8000")) is not None:
        lines.append(
            f"At 8,000 tokens it would take {least}{estimate:,} CPU seconds, {results['times_at_8000']:.1f} times those with screening, if it needs"
            " as many passes and each of them is longer by the same factor as one pass over the text."
        )
    return lines


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
