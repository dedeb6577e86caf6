"""Citations in a real browser: the page of its own, and the tab of the service."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from reagent.citations import Citations
from views.citation_samples import ANSWER, QUESTION, every_citation, long_document, make_citations, many_scripts
from views.samples import make
from web.browser.actions import bounding_box, drop, violations, wait_until_finished
from web.browser.conftest import HOSTILE_NAME, BrowserLog, open_page, record

pytestmark = pytest.mark.xdist_group("browser citations")

ATTACK = "<img src=x onerror=alert(1)>"


def part(page: Page, number: int) -> Locator:
    return page.locator(".reagent-answer-text .reagent-part").nth(number)


def sentence(page: Page, number: int) -> Locator:
    return page.locator(f'.reagent-sentence[data-sentence="{number}"]')


def shades(items: Locator) -> list[float]:
    script = "nodes => nodes.map(node => Number(node.querySelector('.reagent-ink').style.getPropertyValue('--weight')))"
    return [float(weight) for weight in items.evaluate_all(script)]


# --- the page of its own ---


@pytest.fixture
def show(browser: Browser, log: BrowserLog, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open citations as a file. At the end there must be no errors and no other requests."""
    pages: list[Page] = []

    def open_file(citations: Citations, **options: Any) -> Page:
        citations.to_html(tmp_path / "citations.html")
        page = browser.new_context(**options).new_page()
        pages.append(page)
        record(page, log)
        page.goto((tmp_path / "citations.html").as_uri())
        return page

    yield open_file
    for page in pages:
        page.context.close()
    assert log.unexpected() == []
    assert [url for url in log.requests if not url.startswith(tmp_path.as_uri())] == []


def test_a_sentence_of_the_answer_highlights_its_sources(show: Callable[..., Page]) -> None:
    page = show(make_citations())
    expect(page.get_by_role("button", name="whole answer")).to_have_attribute("aria-pressed", "true")
    part(page, 1).click()
    assert shades(page.locator(".reagent-sentence")) == [0.8, 0.8, 0, 0, 0]
    expect(sentence(page, 1).locator(".reagent-tag")).to_have_text(
        "needed, sufficient: removed −5.0 ± 0.2 nats, alone 50\u00a0%"
    )
    expect(sentence(page, 3).locator(".reagent-tag")).to_be_hidden()
    expect(page.locator(".reagent-panel")).to_contain_text("is from the documents: without all of them −10.0 nats")
    expect(page.locator(".reagent-panel .reagent-source")).to_have_count(2)
    part(page, 2).click()
    expect(part(page, 2)).to_contain_text("not from the documents")
    assert not any(shades(page.locator(".reagent-sentence")))
    expect(page.locator(".reagent-panel")).to_contain_text("the model knows it or invents it")


def test_a_source_highlights_what_depends_on_it(show: Callable[..., Page]) -> None:
    page = show(make_citations())
    sentence(page, 0).click()
    assert shades(page.locator(".reagent-answer-text .reagent-part")) == [0.8, 0.8, 0]
    lines = page.locator(".reagent-panel .reagent-source")
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text("redundant with [2], sufficient")
    expect(sentence(page, 3)).to_have_class("reagent-sentence reagent-linked")
    lines.nth(1).click()
    expect(part(page, 1)).to_be_focused()
    expect(part(page, 1)).to_have_attribute("aria-pressed", "true")
    sentence(page, 2).click()
    expect(page.locator(".reagent-panel")).to_contain_text("No sentence of the answer depends on it (removed 0.0")


def test_the_keyboard_is_enough(show: Callable[..., Page]) -> None:
    page = show(make_citations())
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="whole answer")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(part(page, 0)).to_be_focused()
    expect(part(page, 0)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Tab")  # the first line of the panel
    page.keyboard.press("Enter")
    expect(sentence(page, 0)).to_be_focused()
    expect(sentence(page, 0)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("ArrowDown")
    expect(sentence(page, 1)).to_have_attribute("aria-pressed", "true")


def test_a_footnote_leads_to_its_sentence(show: Callable[..., Page]) -> None:
    page = show(make_citations())
    part(page, 0).locator("sup").nth(1).click()
    expect(sentence(page, 3)).to_have_attribute("aria-pressed", "true")
    expect(sentence(page, 3)).to_be_focused()


def test_a_long_document_is_folded(show: Callable[..., Page]) -> None:
    page = show(long_document())
    shown = page.locator('[data-document="0"] .reagent-sentence:visible')
    assert shown.evaluate_all("nodes => nodes.map(node => Number(node.dataset.sentence))") == [0, 1, 19, 20, 21]
    gaps = page.locator(".reagent-gap:visible")
    assert gaps.all_inner_texts() == ["⋯ 17 sentences ⋯", "⋯ 18 sentences ⋯"]
    gaps.first.click()
    expect(shown).to_have_count(40)
    expect(sentence(page, 2)).to_be_focused()
    page.get_by_role("button", name="fold").click()
    expect(shown).to_have_count(5)
    page.emulate_media(media="print")
    expect(shown).to_have_count(40)


def test_every_script_is_shown_in_its_direction(show: Callable[..., Page]) -> None:
    page = show(many_scripts())
    first, second = (bounding_box(sentence(page, index).locator(".reagent-ink")) for index in (2, 3))
    assert first["x"] + first["width"] > second["x"] + second["width"] or first["y"] < second["y"]
    expect(page.locator(".reagent-documents")).to_contain_text("👩🏽‍🏫")
    expect(page.locator(".reagent-documents")).to_contain_text("संग्रहालय सुबह नौ बजे खुलता है।")
    sentence(page, 4).click()
    expect(part(page, 1)).to_have_class("reagent-part reagent-depends")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_every_page_is_accessible_and_fits_the_window(show: Callable[..., Page], width: int, scheme: Any) -> None:
    for name, citations in every_citation().items():
        page = show(citations, color_scheme=scheme, viewport={"width": width, "height": 800})
        for click in (None, part(page, 0), sentence(page, 0)):
            if click is not None:
                click.click()
            if click is not None or name == "one":
                assert violations(page) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.locator("img, main b b, iframe").count() == 0


def test_without_javascript_the_footnotes_are_there(show: Callable[..., Page]) -> None:
    page = show(make_citations(), java_script_enabled=False)
    expect(page.get_by_role("listitem").first).to_contain_text("clocks: “The museum of clocks opens at nine.”")
    expect(page.get_by_text("(not from the documents)")).to_be_visible()


# --- the tab of the service ---


def fill_form(page: Page, document: str = "It opens at nine. It is blue.") -> None:
    """One short document, because the tiny model reads 128 tokens."""
    page.get_by_role("tab", name="Cite documents").click()
    for name in ("Remove document 3", "Remove document 2"):
        page.get_by_role("button", name=name).click()
    page.get_by_label("Document 1", exact=True).fill(document)
    page.get_by_label("Question", exact=True).fill("When?")
    page.get_by_label("Answer to check").fill("At nine.")


def test_documents_are_cited(page: Page) -> None:
    fill_form(page, f"It opens at nine. {ATTACK}")
    assert violations(page) == []
    page.get_by_role("button", name="Find the sources").click()
    wait_until_finished(page)
    assert "#/c/" in page.url
    expect(page.locator("#view .reagent-citations-question")).to_have_text("When?")
    expect(page.locator("#view .reagent-documents")).to_contain_text(ATTACK)
    expect(page.locator("#view .reagent-facts")).to_contain_text(HOSTILE_NAME)
    expect(page.locator("#contrast")).to_be_hidden()
    expect(page).to_have_title("When? – reagent")
    expect(page.locator("#history a").first).to_contain_text("When? At nine. cite")
    for kind, beginning in {"HTML": b"<!doctype html>", "JSON": b'{"schema":', "Markdown": b"**When?**"}.items():
        with page.expect_download() as waiting:
            page.get_by_role("link", name=f"Download {kind}").click()
        assert Path(waiting.value.path()).read_bytes().startswith(beginning)
    page.reload()
    wait_until_finished(page)
    expect(page.get_by_role("tab", name="Cite documents")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_label("Document 1", exact=True)).to_have_value(f"It opens at nine. {ATTACK}")
    expect(page.get_by_label("Question", exact=True)).to_have_value("When?")
    drop(page, ("why.json", make().to_json()))
    expect(page.get_by_role("tab", name="Explain a prompt")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#view .reagent-heading")).to_contain_text("Tokyo")
    page.locator("#history a").first.click()
    expect(page.locator("#view .reagent-citations-question")).to_have_text("When?")


@pytest.fixture
def very_slow(network: Any) -> Iterator[None]:
    """Citations of a short document take few passes."""
    hook = network.register_forward_pre_hook(lambda *_: time.sleep(2))
    yield
    hook.remove()


@pytest.mark.usefixtures("very_slow")
def test_a_running_citation_survives_a_reload_and_can_be_cancelled(page: Page) -> None:
    fill_form(page)
    page.get_by_role("button", name="Find the sources").click()
    page.wait_for_url("**/#/j/*")
    page.reload()
    expect(page.get_by_label("Answer to check")).to_have_value("At nine.")
    expect(page.locator("#progress-bars")).to_contain_text("cite: ")
    expect(page.locator("#pending a")).to_contain_text("When?")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Cancelled.", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Run again")).to_be_visible()


def test_files_become_documents(page: Page) -> None:
    records = [{"id": "a", "text": "One."}, {"page_content": "Two.", "metadata": {"source": "b.html"}}, "Three."]
    drop(page, ("notes.txt", "\ufeffFirst note."), ("many.jsonl", "\n".join(map(json.dumps, records)) + "\n"))
    expect(page.get_by_role("tab", name="Cite documents")).to_have_attribute("aria-selected", "true")
    items = page.locator("#documents .item")
    expect(items).to_have_count(7)  # after those of the example
    assert items.locator(".title").all_inner_texts()[3:] == ["notes.txt", "a", "b.html", "Document 7"]
    assert items.locator("textarea").evaluate_all("nodes => nodes.map(n => n.value)")[3:] == [
        "First note.",
        "One.",
        "Two.",
        "Three.",
    ]
    for name, text, message in (
        ("bad.jsonl", '{"text": "x"}\n{', "line 2 of bad.jsonl is not JSON"),
        ("bad.jsonl", "3", "line 1 of bad.jsonl has no text"),
        (f"{ATTACK}.txt", " ", f"{ATTACK}.txt is empty"),
    ):
        drop(page, (name, text))
        expect(page.get_by_role("alert")).to_contain_text(message)
        expect(items).to_have_count(7)


def test_dropped_citations_are_shown(page: Page) -> None:
    drop(page, ("citations.json", make_citations().to_json()))
    expect(part(page, 0)).to_have_text(f"{ANSWER[0]}[1][2]")
    expect(page.get_by_label("Question", exact=True)).to_have_value(QUESTION)
    expect(page.locator("#downloads")).to_be_hidden()
    drop(page, ("citations.json", make_citations().to_json()), ("why.json", make().to_json()))
    expect(page.locator("#view .part")).to_have_count(2)


def test_the_number_of_requests_is_told_before(browser: Browser, address: str, log: BrowserLog) -> None:
    """The form of a service whose model is behind an API."""
    page = browser.new_context().new_page()
    record(page, log)

    def as_server(route: Route) -> None:
        route.fulfill(json=route.fetch().json() | {"server": True, "models": ["far"]})

    page.route("**/api/options", as_server)
    page.route("**/api/citations/estimate", lambda route: route.fulfill(json={"requests": 1234, "tokens": 56789}))
    page.goto(f"{address}#/cite")
    fill_form(page)
    page.get_by_role("button", name="Find the sources").click()
    expect(page.get_by_text("At most 1,234 requests with 56,789 tokens to far.")).to_be_visible()
    assert "#/j/" not in page.url
    page.get_by_role("button", name="Not now").click()
    expect(page.locator("#estimate")).to_be_hidden()
    page.get_by_role("button", name="Find the sources").click()
    page.get_by_role("button", name="Start").click()
    wait_until_finished(page)
    page.context.close()
    assert log.unexpected() == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_tab_is_accessible_and_fits_the_window(
    browser: Browser, address: str, log: BrowserLog, width: int, scheme: Any
) -> None:
    page = open_page(browser, f"{address}#/cite", log, color_scheme=scheme, viewport={"width": width, "height": 800})
    page.get_by_role("tab", name="Cite documents").press("ArrowLeft")
    expect(page.get_by_role("tab", name="Explain a prompt")).to_be_focused()
    page.get_by_role("tab", name="Explain a prompt").press("ArrowLeft")
    for dropped in (None, make_citations(), long_document()):
        if dropped is not None:
            drop(page, ("citations.json", dropped.to_json()))
            expect(page.locator("#view .reagent-documents")).to_be_visible()
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()
    assert log.unexpected() == []
