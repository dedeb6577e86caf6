"""From the records of a run to tables, figures and a page.

reading.py      the numbers of every cell
results.py      each entry against random: log ratios, intervals, tests
study.py, pairwise_tables.py, standing.py, sharpness.py, rationales.py, variants.py   the tables
bars.py, convergence.py, examples.py   the figures
published/      the paper's own numbers
assembling.py   which of them, in which order
tables.py, contents.py   what a table and a report are, before they become files
markdown.py, latex.py, page.py   the three forms
drawing.py, saving.py    figures as PNG and SVG; how all gets to the disk
"""

from pathlib import Path

from reagent.bench.store import Store
from reagent.errors import InputError
from reagent.report.analysis import findings, values
from reagent.report.build import assemble, lead
from reagent.report.formats import latex, markdown
from reagent.report.formats.html import page
from reagent.report.load import Records, read
from reagent.report.write import Files, data_files, require_libraries, save


def write_report(path: str | Path, out: str | Path) -> list[Path]:
    """Write the report of the run in file `path` to the folder `out`; the page comes first in what is returned.

    Files of an earlier report there are replaced or taken away; all others stay.
    """
    require_libraries()
    with Store.open(path) as store:
        files = report_files(store, str(path))
    return save(files, Path(out))


def report_files(records: Records, name: str) -> Files:
    """All files of a report by their names in its folder, the page first."""
    run = read(records)
    if not run.rows and not run.failures:
        raise InputError(
            f"there is nothing to report: {name!r} has no cell that is done or failed; run its suite first"
        )
    found = findings(run)
    contents = assemble(records, run, found)
    files: dict[str, str | bytes] = {
        "index.html": page(contents, lead(run)),
        "report.md": markdown.document(contents),
        "report.tex": latex.document(contents),
    }
    for table in contents.tables:
        files |= {f"tables/{table.id}.md": markdown.table(table), f"tables/{table.id}.tex": latex.table(table)}
        files |= data_files(table.id, table.records)
    for figure in contents.figures:
        files |= {f"figures/{figure.id}.png": figure.png, f"figures/{figure.id}.svg": figure.svg}
    if contents.examples:
        files["tables/examples.tex"] = latex.examples(contents.examples)
    if run.rows:
        files |= data_files("results", [finding.record() for finding in found]) | data_files("values", values(run))
    return files


__all__ = ["report_files", "write_report"]
