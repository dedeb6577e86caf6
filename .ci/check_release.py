"""Check that a tag, the version of the package, the changelog and the citation agree: `check_release.py v0.1.0`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTHING = "nothing"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def find(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.M)
    return found[1] if found else NOTHING


def find_problems(tag: str) -> list[str]:
    """One line for each file that does not agree with the tag."""
    version = tag.removeprefix("v")
    date = find(rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$", read("CHANGELOG.md"))
    citation = read("CITATION.cff")
    expected = {
        "src/reagent/_version.py": (version, find(r'^__version__ = "(.+)"$', read("src/reagent/_version.py"))),
        "CITATION.cff": (version, find(r"^version: (.+)$", citation)),
        "CITATION.cff, date-released": (date, find(r'^date-released: "(.+)"$', citation)),
    }
    wrong = [f"{place} has {has}, and {must} is expected" for place, (must, has) in expected.items() if must != has]
    if date == NOTHING:
        wrong = [f"CHANGELOG.md has no section [{version}] with a date", *wrong[:-1]]
    return wrong if tag.startswith("v") else [f"the tag {tag} does not begin with v", *wrong]


if __name__ == "__main__":
    problems = find_problems(sys.argv[1])
    print("\n".join(f"error: {problem}" for problem in problems) or f"{sys.argv[1]} can be released")
    sys.exit(bool(problems))
