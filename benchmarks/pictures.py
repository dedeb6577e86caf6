"""The pictures of the README: an explanation and citations as web pages, and the page of the server.

    python benchmarks/pictures.py docs/images               # all of them
    python benchmarks/pictures.py docs/images citations     # some: explanation, citations, page

Needs Chromium (its path in CHROMIUM, or in the search path) and the extras `web` and `dev`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import reagent

PROMPT = (
    "My aunt moved to Japan to teach music. People in Japan are friendly. "
    "(Her old piano is still standing in our garage). She rents a small flat in the capital,"
)
QUESTION = "When does the museum open, and what does a ticket cost?"
DOCUMENTS = {
    "clocks.txt": "The museum of clocks opens at nine in the morning. Tickets cost four crowns.",
    "mill.txt": "The old mill stands by the river. It was built of stone.",
    "guide.txt": "Visitors love the town. At nine in the morning the museum of clocks opens its doors.",
}
ANSWER = "The museum of clocks opens at nine in the morning. Tickets cost four crowns. The sun rises in the east."


def show_explanation(browser: Browser, path: Path, temporary: Path) -> None:
    html = temporary / "why.html"
    reagent.explain("smollm2", PROMPT, max_new_tokens=1).to_html(html)
    page = browser.new_page(viewport={"width": 1000, "height": 740})
    page.goto(html.as_uri())
    page.screenshot(path=path)


def show_citations(browser: Browser, path: Path, temporary: Path) -> None:
    html = temporary / "citations.html"
    reagent.cite("smollm2", QUESTION, DOCUMENTS, ANSWER).to_html(html)
    page = browser.new_page(viewport={"width": 1000, "height": 640})
    page.goto(html.as_uri())
    page.locator(".reagent-answer-text .reagent-part").first.click()
    page.screenshot(path=path)


def show_page(browser: Browser, path: Path, temporary: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "reagent", "serve", "--port", "0", "--folder", str(temporary)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(server.stdout.readline().strip())
        page.get_by_label("Prompt", exact=True).fill(PROMPT)
        page.get_by_label("Max. tokens").fill("4")
        page.get_by_role("button", name="Explain", exact=True).click()
        page.get_by_role("link", name="Link to this result").wait_for(timeout=300_000)
        page.screenshot(path=path)
    finally:
        server.terminate()
        server.wait()


PICTURES = {"explanation": show_explanation, "citations": show_citations, "page": show_page}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(PICTURES))
    arguments = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in arguments.names:
            PICTURES[name](browser, arguments.folder / f"{name}.png", Path(temporary))
        browser.close()


if __name__ == "__main__":
    main()
