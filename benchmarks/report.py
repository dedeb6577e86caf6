"""docs/benchmarks.md and its plots, from the JSON that the other scripts printed.

python benchmarks/report.py docs/benchmarks        # what the other scripts printed, as NAME.json
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import plots


def main() -> None:
    folder = Path(sys.argv[1])
    read = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    pages = [INTRODUCTION]
    if "agreement" in read:
        plots.agreement(read["agreement"], folder / "agreement.png")
        pages.append(agreement(read["agreement"]))
    if "scoring" in read:
        plots.cost(read["scoring"], folder / "cost.png")
    for name, write in SECTIONS.items():
        if name in read:
            pages.append(write(read[name]))
    Path(folder.parent / "benchmarks.md").write_text("\n".join(pages), encoding="utf-8")


ENDS = {"start": "met it at their random start", "condition": "met it later", "maximum": "not at all"}
CALLED = {"forty": "of forty", None: "in all"}  # a length, for people

INTRODUCTION = """# Benchmarks

Written by `benchmarks/report.py` from what the other scripts in `benchmarks/` printed; all on two CPU cores with the
embedded SmolLM2-135M (float32), prompts in `benchmarks/prompts.py`. Times drift with the machine: read ratios.
"""


def group(results: dict[str, Any], replacer: str, length: str | None = None) -> list[dict[str, Any]]:
    chosen = [key for key in results if key.split()[0] == replacer and (length is None or key.split()[1] == length)]
    return [results[key] for key in chosen]


def average(entries: list[dict[str, Any]], method: str, count: str, key: str) -> float:
    values = [entry[method][count][key] for entry in entries if method in entry and key in entry[method][count]]
    return float(np.mean(values)) if values else float("nan")


def told(value: float, digits: int = 2) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


def agreement(results: dict[str, Any]) -> str:
    lines = [
        "## Agreement with a converged reference",
        "",
        "Pearson correlation of effects with a reference of 4,096 probes from other seeds, and how many of the five largest",
        "effects are the same, mean over prompts and seeds; `two seeds`: correlation of two independent runs.",
        "",
        "![Agreement against probes](benchmarks/agreement.png)",
        "",
        "| replacer, prompts | tokens | probes | agreement | top 5 | two seeds |",
        "|---|---|---|---|---|---|",
    ]
    for replacer in ("self", "infill", "pos", "random"):
        for length in ("short", "medium", "forty", "long"):
            entries = group(results, replacer, length)
            if not entries:
                continue
            tokens = sorted(entry["tokens"] for entry in entries)
            size = f"{tokens[0]}–{tokens[-1]}" if tokens[0] < tokens[-1] else f"{tokens[0]}"
            for count in ("64", "96", "128", "256"):
                cells = [average(entries, "fast", count, key) for key in ("pearson", "top5", "two_seeds")]
                row = " | ".join(told(cell, 2 + (cell >= 0.995)) for cell in cells)
                lines.append(
                    f"| `{replacer}`, {len(entries)} {CALLED.get(length, length)} | {size} | {count} | {row} |"
                )
    lines += [
        "",
        "The published sum (30 % replaced, drawn independently) and the same response dealt and centred, each against 4,096",
        "dealt probes of its own kind (of longer prompts in families with a common beginning, which is read once); beside",
        "them `fast` on the same prompts. Agreement with 64, 128 and 256 probes:",
        "",
        "| replacer, prompts | published sum | dealt, centred | fast |",
        "|---|---|---|---|",
    ]
    for replacer in ("self", "infill", "pos", "random"):
        for length in ("short", "medium", "forty", "long"):
            both = [entry for entry in group(results, replacer, length) if "published" in entry]
            cells = [
                ", ".join(told(average(both, method, count, "pearson")) for count in ("64", "128", "256"))
                for method in ("published", "dealt", "fast")
            ]
            if both:
                lines.append(f"| `{replacer}`, {len(both)} {CALLED.get(length, length)} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *coverage(results), ""])


def coverage(results: dict[str, Any]) -> list[str]:
    runs = sorted(entry["runs"] for entry in results.values())
    lines = [
        "## Are the errors right?",
        "",
        "Share of 95 % intervals that contain the reference, of all tokens and (in parentheses) of the five with the largest",
        f"effects, over {runs[0]} to {runs[-1]} runs of other seeds, more where tokens are few. A token whose candidates were all tried, one at a",
        "time, has no error and is not counted (–: no other is left). Beside it how much larger the errors are than the spread of",
        "effects over runs, by root mean squares, in the same order; they are meant to be somewhat larger, since they also answer",
        "for what shrinkage takes away in every run, and for how little few probes tell about errors. How errors are stretched",
        "where candidates are lopsided was chosen, among three ways, by these rates on the short prompts.",
        "",
        "| replacer, prompts | 64 probes | 128 | 256 | all together | error ÷ spread |",
        "|---|---|---|---|---|---|",
    ]
    for replacer in ("self", "infill", "pos", "random"):
        for length in ("short", "medium", "forty", "long", None):
            entries, counts = group(results, replacer, length), ("64", "128", "256")
            if not entries:
                continue
            rates = np.array(
                [[average(entries, "fast", n, key) for key in ("covered", "covered_top5")] for n in counts]
            )  # [counts, 2]
            cells = [f"{told(rate)} ({told(top)})" for rate, top in [*rates, np.nanmean(rates, axis=0)]]
            cells.append(", ".join(told(_too_large(entries, n), 1) for n in counts))
            lines.append(f"| `{replacer}`, {len(entries)} {CALLED.get(length, length)} | {' | '.join(cells)} |")
    return lines


def _too_large(entries: list[dict[str, Any]], count: str) -> float:
    """Errors over spread, of the prompts that have anything open."""
    cells = [entry["fast"][count] for entry in entries if "covered" in entry["fast"][count]]
    ratios = [cell["claimed"] / cell["spread"] for cell in cells if cell["spread"]]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")


def antecedents(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {name} | {found[name]['mean_forward_passes']:.0f} | {found[name]['country_in_top_3']:.0%} |"
        for name in ("fast", "paper", "paper, all steps")
    )
    return f"""## Is the cause found?

A country in the first sentence, a distractor in parentheses, the capital as the answer
(`benchmarks/antecedents.py`): {found["cases_explained"]} of {found["cases_kept"]} cases in which the model names the capital
with and without the distractor. The country is among the three most important tokens:

| preset | forward passes, mean | share of cases |
|---|---|---|
{rows}

("All steps": with a stopping test so hard that it hardly ever ends a run early.)
"""


def scoring(found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {length} | {1000 * seconds:.0f} |"
        for length, seconds in found["seconds_per_probe_by_prompt_length"].items()
    )
    times = found["seconds_96_probes"]
    memory = ", ".join(f"{m['peak_mb']:,.0f} MB with {m['weights_mb']:,.0f} MB of weights" for m in found["memory"])
    cut = found["cut_times_faster"]
    return f"""## What a probe costs

`benchmarks/scoring.py`, {found["threads"]} threads:

- A batch of probes that share nothing reaches {found["share_of_peak"]:.0%} of the matrix-multiply peak of the machine
  ({found["probe_gflops"]:.0f} of {found["matmul_gflops"]:.0f} GFLOP/s).
- A fixed beginning of {found["fixed_prefix_tokens"]} tokens before a prompt of 29 is read once, not in every probe:
  {found["fixed_prefix_times_faster"]:.1f} times faster.
- 32 probes that replace one token each of a 42-token prompt, cut where their beginnings are shared:
  {cut["1"]:.2f} times faster for one output token, {cut["20"]:.2f} times for 20.
- 20 output tokens cost {found["twenty_targets_over_one"]:.2f} times one at equal probes
  ({times["20"]:.1f} s against {times["1"]:.1f} s for 96 probes of a 42-token prompt).
- Peak memory of a process that scores 64 probes of 64 tokens, Llamas of three sizes: {memory}.

![Milliseconds per probe against prompt length, and peak memory against weights](benchmarks/cost.png)

| prompt tokens | ms per probe |
|---|---|
{rows}
"""


def inseq(found: dict[str, Any]) -> str:
    theirs, ours = found["inseq"], found["ours"]
    seen = ", ".join(f"{r:.2f} after {k}" for k, r in theirs["agreement_after_steps"].items())
    rows = []
    for n, token in ((1, "token"), (20, "tokens")):
        for name, fast in ours.items():
            if name.startswith("fast") and name.endswith(f" {n} targets"):
                low = f" (lowest {fast['lowest_agreement']:.2f})" if n > 1 else ""
                times = [f"{fast[f'times_faster_at_{at}']:,.0f} ×" for at in ("0.9", "equal_agreement")]
                cells = [f"{fast['passes']:,}", f"{fast['seconds']:,.1f}", f"{fast['agreement']:.2f}{low}", *times]
                rows.append(f"| `{name.split(', ')[0]}`, {n} output {token} | {' | '.join(cells)} |")
        paper = ours[f"paper, {n} targets"]
        rows.append(f"| `paper`, {n} output {token} | {paper['passes']:,} | {paper['seconds']:,.1f} | – | – | – |")
    ended = ours["paper, 20 targets"]["ended"]
    ends = ", ".join(f"{ended[why]} {told}" for why, told in ENDS.items() if why in ended)
    twenty = [fast for name, fast in ours.items() if name.startswith("fast") and name.endswith(" 20 targets")]
    return f"""## Against Inseq

Inseq {theirs["inseq"]}'s `reagent` in its own environment, the same model folder and machine, one run, our proposals handed
to it (`benchmarks/inseq_comparison.py`; a prompt of {found["prompt_tokens"]} tokens). It ran {theirs["steps"]} steps of
{theirs["chains"]} chains on one output token, at {theirs["seconds_per_step"]:.2f} s a step; agreement with its own converged
answer: {seen} steps.

**Extrapolated** by r = 1/√(1 + c/k) with the fitted c = {theirs["c"]:.0f}, and multiplied by the number of output tokens: how many
times longer Inseq takes for an agreement of 0.9, and for the agreement that `fast` has. Ours is measured, with
{found["reference_probes"]:,} probes of another seed, mean over the output tokens; seconds are from the prompt to the explanation,
the continuation of 20 tokens written too. One run of Inseq on one prompt leaves c uncertain by a factor of two or so, and
times drift by as much. 32 and 48 probes were added after a first run with 64 alone had fallen short of 3,000 times at 0.9.

| | passes | seconds | agreement | Inseq, for 0.9 | Inseq, for equal agreement |
|---|---|---|---|---|---|
{chr(10).join(rows)}

`paper` with its own stopping test and three runs, each of at most {found["paper_steps_at_most"]} steps (of the 20 output tokens
{ends}); it computes the same sum as Inseq, at {ours["paper, seconds per step"]:.2f} s a step.

So for twenty output tokens Inseq would take {twenty[-1]["times_faster_at_0.9"]:,.0f} ({twenty[-1]["passes"]} passes of ours) to {twenty[0]["times_faster_at_0.9"]:,.0f} times ({twenty[0]["passes"]} passes) as long
to an agreement of 0.9, which ours exceed on average with either number, though not for every output token.
"""


def designs(found: dict[str, Any]) -> str:
    lines = [
        "## What else was tried",
        "",
        f"`benchmarks/designs.py`: agreement with {found['reference']:,} dealt probes of 10 %, and in brackets the share of the",
        f"five most important tokens found; mean over {found['prompts']} prompts and three seeds. Without another estimate named, it is",
        "that with learned variances. A reference of 10 % favours designs of 10 %; how well effects predict replacements is",
        "in [the study](study/README.md).",
        "",
        "| design | 64 probes | 128 | 256 |",
        "|---|---|---|---|",
    ]
    for name, row in found["agreement"].items():
        cells = (f"{cell['pearson']:.3f} ({cell['top5']:.2f})" for cell in row.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "How well effects learned at one share predict what happens when 30 % are replaced (correlation with the drop):",
        "",
        "| learned at | 64 probes | 128 | 256 |",
        "|---|---|---|---|",
    ]
    for share, row in found["predicts_30_percent"].items():
        lines.append(f"| {share} | " + " | ".join(f"{cell['pearson']:.2f}" for cell in row.values()) + " |")
    return "\n".join([*lines, ""])


def replacers(found: dict[str, Any]) -> str:
    names = list(found["replacers"])
    lines = [
        "## Which replacer?",
        "",
        f"`benchmarks/replacers.py`, {found['cases']} questions for a capital, {found['probes']} probes. `natural`: nats that each word",
        "which was not replaced loses, as the model sees it (less is more natural). The last columns: correlation of what the",
        "effects predict with what hands never used before, replaced by another replacer, really cost the answer.",
        "",
        "| replacer | own passes | own seconds | country in top 3 | its score | natural | "
        + " | ".join(f"predicts `{name}`" for name in names)
        + " |",
        "|---" * (6 + len(names)) + "|",
    ]
    for name, row in found["replacers"].items():
        cells = [
            f"{row['passes_for_proposals']:.0f}",
            f"{row['seconds_for_proposals']:.1f}",
            f"{row['country_in_top_3']:.0%}",
            f"{row['score_of_country']:.2f}",
            f"{row['nats_lost_per_word']:.2f}",
            *(f"{row[f'predicts {other}']:.2f}" for other in names),
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def documents(found: dict[str, Any]) -> str:
    lines = [
        "## Long documents",
        "",
        f"`benchmarks/documents.py`: a question over {found['tokens']:,} tokens, of which one sentence answers it. Coarse to fine took",
        f"{found['passes_over_short']:.1f} times the passes of a 42-token prompt ({found['short']['forward_passes']}); the sentence that came first:",
        f"“{found['coarse to fine']['first_sentence'].strip()}”",
        "",
        "| | passes | seconds | processor seconds | place of the key word | peak memory, MB |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("coarse to fine", "tokens only"):
        if name in found:
            row = found[name]
            place = row["key_word_at"] or "–"
            lines.append(
                f"| {name} | {row['forward_passes']} | {row['seconds']:.0f} | {row['core_seconds']:.0f} | {place} "
                f"| {row['peak_memory_mb']:,.0f} |"
            )
    return "\n".join([*lines, ""])


def methods(found: dict[str, Any]) -> str:
    lines = [
        "## Every method on one prompt",
        "",
        "`benchmarks/methods.py`: the prompt of the README, 29 tokens, one output token. (The published algorithm was cut off after",
        "200 steps a run.)",
        "",
        "| method | most important | passes | seconds |",
        "|---|---|---|---|",
    ]
    for name, row in found.items():
        top = " ".join(f"`{text.strip() or text}`" for text in row["top"])
        lines.append(f"| {name} | {top} | {row['passes']} | {row['seconds']:.1f} |")
    return "\n".join([*lines, ""])


def completeness(found: dict[str, Any]) -> str:
    ways = list(found["tiny"]["gpt2"])
    lines = [
        "## Do integrated gradients add up?",
        "",
        "`benchmarks/completeness.py`: by which share the effects miss what they should add up to, the largest of three targets, on",
        "tiny networks of seven families. `default` places steps where the path needs them.",
        "",
        "| network | " + " | ".join(ways) + " |",
        "|---" * (1 + len(ways)) + "|",
    ]
    for family, row in found["tiny"].items():
        lines.append(
            f"| {family} | " + " | ".join(f"{row[way]['gap']:.4f} ({row[way]['steps']})" for way in ways) + " |"
        )
    real = {way: row for way, row in found["smollm2"].items() if isinstance(row, dict)}
    lines += [
        "",
        f"In brackets the steps it took. On the embedded model, {found['smollm2']['cases']} questions for a capital:",
        "",
        "| steps | median gap | largest gap | country in top 3 |",
        "|---|---|---|---|",
    ]
    for way, row in real.items():
        lines.append(f"| {way} | {row['median_gap']:.2f} | {row['largest_gap']:.2f} | {row['country_in_top_3']:.0%} |")
    lines += [
        "",
        "The default was designed while looking at prompts of the same templates, and these are few: the last column is no proof",
        "that it finds more. A gap of 0.33 counts what was left out of the path near zero, where more steps settle nothing.",
    ]
    return "\n".join([*lines, ""])


def interrupted(found: dict[str, Any]) -> str:
    same = found["equal_to_an_undisturbed_run"]
    return "\n".join(
        [
            "## Benchmarks that are killed",
            "",
            f"`benchmarks/interrupted.py`: `kill -9` at {found['kills']} random moments of {found['runs']} runs of {found['cells']} cells, and each",
            f"run went on until it was whole. Tables equal to that of an undisturbed run, to the last digit: {sum(same)} of {len(same)}.",
            "",
        ]
    )


SECTIONS = {
    "methods": methods,
    "completeness": completeness,
    "antecedents": antecedents,
    "replacers": replacers,
    "scoring": scoring,
    "inseq": inseq,
    "documents": documents,
    "interrupted": interrupted,
    "designs": designs,
}


if __name__ == "__main__":
    main()
