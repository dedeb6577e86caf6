"""Open every page of the built site in Chromium: no error, no request to another host, no page wider than the window.

python tools/check_site.py [--pictures FOLDER] [PAGE …]
"""

import argparse
import functools
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, TimeoutError, sync_playwright

SITE = Path(__file__).parents[1] / "site"
PREFIX = "/reagent"  # the path of `site_url`, which the page for missing addresses contains
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
WIDTHS = {"desktop": 1280, "phone": 390}
SCHEMES = ("light", "dark")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="as method.html; all by default")
    parser.add_argument("--pictures", type=Path, help="write a picture of each page into this folder")
    arguments = parser.parse_args()
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None and os.environ.get("REAGENT_REQUIRE_BROWSER") == "1":
        sys.exit("error: REAGENT_REQUIRE_BROWSER is set, but Chromium is not installed: install it")
    if path is None:
        print("the pages were not opened, because Chromium is not installed")
        return
    pages = arguments.pages or sorted(str(page.relative_to(SITE)) for page in SITE.rglob("*.html"))
    sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with served(SITE) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=sandbox)
        problems = [problem for page in pages for problem in check(browser, address, page, arguments.pictures)]
        problems += check_search(browser)
        browser.close()
    print(*problems, f"{len(pages)} pages, {len(problems)} problems", sep="\n")
    sys.exit(bool(problems))


class Handler(SimpleHTTPRequestHandler):
    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix(PREFIX))

    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}{PREFIX}/"
    server.shutdown()


def check_search(browser: Browser) -> Iterator[str]:
    """The search finds a word of a page, where the site is opened from its folder."""
    tab = browser.new_page()
    tab.goto((SITE / "index.html").as_uri())
    tab.locator("html.js, body").first.wait_for()
    tab.get_by_role("button", name="Search").first.click()
    tab.keyboard.type("censored")
    try:
        tab.locator("a[href*='black-boxes.html'][href*='censored']").first.wait_for(timeout=10_000)
    except TimeoutError:
        yield "the search does not find 'censored' in black-boxes.html"
    tab.close()


def check(browser: Browser, address: str, page: str, pictures: Path | None) -> Iterator[str]:
    for scheme in SCHEMES:
        for name, width in WIDTHS.items():
            for problem in visit(browser, address, page, scheme, width, pictures and pictures / f"{name}-{scheme}"):
                yield f"{page} ({name}, {scheme}): {problem}"


def visit(browser: Browser, address: str, page: str, scheme: Any, width: int, pictures: Path | None) -> Sequence[str]:
    """What goes wrong while a page is loaded and scrolled to its end."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab, problems = context.new_page(), []
    tab.on("console", lambda line: problems.append(line.text) if line.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("requestfailed", lambda request: problems.append(f"failed request {request.url}"))
    tab.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((address, "data:", "blob:"))
            else problems.append(f"outside request {request.url}")
        ),
    )
    tab.goto(address + page, wait_until="networkidle")
    tab.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    wide = tab.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        problems.append(f"{wide} px wide in a window of {width} px")
    if pictures is not None:
        tab.evaluate("window.scrollTo(0, 0)")
        target = pictures / Path(page).with_suffix(".png")
        target.parent.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=target, full_page=False)
    context.close()
    return problems


if __name__ == "__main__":
    main()
