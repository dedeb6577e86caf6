"""The section of docs/benchmarks.md about explanations of other packages."""

from typing import Any

from report_tables import table

LABELS = {
    "comprehensiveness nats": "comprehensiveness, replace ↑",
    "comprehensiveness nats_delete": "comprehensiveness, delete ↑",
    "sufficiency nats": "sufficiency, replace ↓",
    "sufficiency nats_delete": "sufficiency, delete ↓",
    "lds spearman": "LDS ↑",
    "soft_ns hellinger": "Soft-NS ↑",
    "soft_nc hellinger": "Soft-NC ↑",
}


def rivals(results: dict[str, Any]) -> str:
    measured = [name for name in LABELS if name in results["random"]]
    rows = {
        name: [*(_cell(values[key]) for key in measured), f"{results['seconds'][name]:.1f}"]
        for name, values in results["results"].items()
    }
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    failed = [f"- {name} failed: {error}" for name, error in results["errors"].items()]
    return "\n".join(
        [
            "## Explanations of other packages",
            "",
            f"What {versions} say about “{results['prompt']}” ▸ “{results['target'].strip()}” (`rivals.py`), imported as",
            "[Other tools](exchange.md) describes, in common units, and measured together by `reagent evaluate` on equal",
            "draws. Each package runs with its usual settings; shap and Shapley values get 200 evaluations. One prompt shows",
            "that the exchange works. It does not rank the methods. ± is the standard error over the draws of the metric.",
            "",
            *table("explanation", [*(LABELS[name] for name in measured), "seconds"], rows),
            "",
            *failed,
            "",
        ]
    )


def _cell(value: list[float]) -> str:
    return f"{value[0]:.2f} ± {value[1]:.2f}" if value[1] else f"{value[0]:.2f}"
