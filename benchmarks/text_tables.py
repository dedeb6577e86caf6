"""Tables of text_only.py and proxies.py for report.py."""

from typing import Any

from report_tables import interval

NAMES = {
    "text": "`--score text`",
    "text+proxy": "`--score text+proxy:MODEL`",
    "text in parts": "`--score text --parts 4`",
    "text+proxy in parts": "`--score text+proxy:MODEL --parts 4`",
    "ICX360": "ICX360 0.1.0, C-LIME with our similarity",
    "llmSHAP": "llmSHAP 1.5.2, windows of three units",
}


def text_only(results: dict[str, Any]) -> str:
    lines = [
        "## Answers alone",
        "",
        f"SmolLM2 answers messages with at most {results['new_tokens']} tokens, greedily. What an explanation from "
        "answers alone says about each unit, compared with the exact effect of deleting this unit on the "
        "log-probability of the answer (`benchmarks/text_only.py`): the mean rank correlation with its 95 % bootstrap "
        "interval, and how often the unit with the largest effect is the first one. The proxy is Gemma 3 270M. The "
        "settings were chosen on other prompts. ICX360's own similarities need networks from a hub, so ours takes "
        "their place.",
        "",
        "| units | method | requests per unit | prompts | rank correlation | same top unit |",
        "|---|---|---|---|---|---|",
    ]
    for kind, settings in results.get("answers", {}).items():
        for setting, name in NAMES.items():
            if setting in settings:
                lines.append(f"| {kind} | {name} | {_quality(settings[setting])} |")
    if "noise" in results:
        lines += [
            "",
            "95 % intervals of a scripted model that answers at random, of which three of sixteen words change the "
            "probability of an answer. The share of intervals that contain the true effect:",
            "",
            "| response, answers for each probe | trials | all words | the three words |",
            "|---|---|---|---|",
        ]
        for setting, figures in results["noise"]["scripted"].items():
            shares = " | ".join(f"{100 * figures[name]['mean']:.0f} %" for name in ("inside", "inside_of_causes"))
            lines.append(f"| {setting} | {figures['inside']['count']} | {shares} |")
    return "\n".join([*lines, ""])


def _quality(figures: dict[str, Any]) -> str:
    rank, top = figures["spearman"], figures["same_top"]
    requests = figures["requests"]["mean"] / figures["units"]["mean"]
    return f"{requests:.1f} | {rank['count']} | {interval(rank, 2)} | {100 * top['mean']:.0f} %"


def proxies(results: dict[str, Any]) -> str:
    lines = [
        "## Proxies",
        "",
        "A small model explains the answer of another one, which only checks it (`--proxy`, `benchmarks/proxies.py`). "
        "The table has the share of the passes of the explained model that are saved, the rank correlation of the word "
        "scores with those of the model's own explanation, and how often the same word is the first one. The answers "
        "are single tokens.",
        "",
        "| proxy for model | prompts | refused | passes saved | rank correlation | same top word |",
        "|---|---|---|---|---|---|",
    ]
    for pair, figures in results["pairs"].items():
        count, refused = figures["refused"]["count"], figures["refused"]["mean"]
        accepted = figures["saved"]["count"]
        values = "– | – | –"
        if accepted:
            saved, top = (f"{100 * figures[name]['mean']:.0f} %" for name in ("saved", "same_top"))
            values = f"{saved} | {interval(figures['agreement'], 2)} | {top}"
        lines.append(f"| {pair} | {count} | {round(count * refused)} | {values} |")
    return "\n".join([*lines, ""])
