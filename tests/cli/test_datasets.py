"""The command that lists the data sets."""

import subprocess
import sys

from reagent.data import DATASETS, load_dataset


def test_it_lists_counts_licences_and_sources(run) -> None:
    answer = run("datasets")
    assert (answer.code, answer.err) == (0, "")
    for name, entry in DATASETS.items():
        assert f"{name}: {entry.summary}" in answer.out
        assert f"bundled: {len(load_dataset(name)):,} examples" in answer.out
        assert entry.licence in answer.out
        assert entry.source in answer.out
    assert "StonyBrookNLP/tellmewhy" in answer.out
    assert "CC BY-SA 3.0" in answer.out
    assert "in 14 groups" in answer.out


def test_it_loads_no_heavy_library() -> None:
    check = (
        "import sys\nfrom reagent.cli import main\n"
        "try: main(['datasets'])\nexcept SystemExit as stop: assert not stop.code, stop.code\n"
        "assert not {'torch', 'transformers', 'datasets', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)
