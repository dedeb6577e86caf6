"""Every causal-LM architecture of transformers, tiny, against plain passes. `make sweep` checks all of them."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from architectures import ARCHITECTURES, FEW, NOT_BUILT, build
from sweep import CHECKS, run_checks

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "docs" / "benchmarks" / "models.json"
MANY = [pytest.param(name, marks=pytest.mark.sweep) for name in ARCHITECTURES if name not in FEW]


def recorded() -> dict[str, Any]:
    if not RECORDED.is_file():
        pytest.skip("the docs are not available")
    return json.loads(RECORDED.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [*FEW, *MANY])
def test_an_architecture_is_right_or_refused(name: str) -> None:
    record = run_checks(name)
    build.cache_clear()
    if name in NOT_BUILT:
        return
    verdicts = record["checks"]
    assert not {check: v for check, v in verdicts.items() if v.startswith(("wrong", "error"))}
    known = {row["architecture"]: row for row in recorded()["architectures"]}
    if name in known:  # nothing is refused that was right
        kinds = {check: verdict.split(":")[0] for check, verdict in verdicts.items()}
        assert kinds == {check: verdict.split(":")[0] for check, verdict in known[name]["checks"].items()}


def test_the_page_is_generated_and_has_nothing_wrong() -> None:
    run = recorded()
    sys.path.insert(0, str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("models_page", ROOT / "benchmarks" / "models.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    sys.path.pop(0)
    assert page.write_page(run) == (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    assert set(page.CHECKS) == set(CHECKS)
    verdicts = [verdict for row in run["architectures"] for verdict in row.get("checks", {}).values()]
    assert len(verdicts) > 1000
    assert not [verdict for verdict in verdicts if verdict.startswith(("wrong", "error"))]
