"""The published numbers of the study are those of its records."""

import csv
from pathlib import Path

import pytest

from reagent.bench.store import Store
from reagent.report.analysis import findings
from reagent.report.load import read

STUDY = Path(__file__).parents[1] / "docs" / "study"


@pytest.mark.parametrize("records", sorted(STUDY.glob("*.sqlite")), ids=lambda path: path.stem)
def test_results_follow_from_the_records(records: Path) -> None:
    with Store.open(records) as store:
        found = [finding.record() for finding in findings(read(store))]
    with (records.with_suffix("") / "data" / "results.csv").open() as file:
        published = list(csv.DictReader(file))
    assert len(found) == len(published) > 0
    for line, told in zip(found, published, strict=True):
        for name in ("model", "dataset", "label", "metric", "measure"):
            assert told[name] == line[name]
        for name in ("log_ratio", "log_ratio_low", "mean", "random", "adjusted_p"):
            value = line[name]
            assert not told[name] if value is None else float(told[name]) == pytest.approx(value, rel=1e-6, abs=1e-12)
