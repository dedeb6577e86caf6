"""The form in a real browser: kinds of prompts, settings, loading, and the queue."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from views.samples import PROMPT, chat, make
from web.browser.actions import choices, drop, fill, submit, violations, wait_until_finished
from web.browser.conftest import BrowserLog, open_page, record
from web.service import wait_for

pytestmark = pytest.mark.xdist_group("browser form")


@pytest.fixture
def bodies(page: Page) -> list[Any]:
    """The bodies of the requested jobs."""
    bodies: list[Any] = []

    def keep(request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/api/jobs"):
            bodies.append(request.post_data_json)

    page.on("request", keep)
    return bodies


@pytest.fixture
def phone(browser: Browser, address: str, log: BrowserLog) -> Iterator[Page]:
    page = open_page(browser, address, log, viewport={"width": 390, "height": 500})
    yield page
    page.context.close()
    assert log.unexpected() == []


def is_at_result(page: Page) -> bool:
    """Whether the beginning of the result is in the upper half of the window."""
    top = page.evaluate("document.getElementById('result').getBoundingClientRect().top / innerHeight")
    return bool(-0.01 < top < 0.5)


def test_the_answer_is_long_enough_for_a_sentence(page: Page, bodies: list[Any]) -> None:
    field = page.get_by_label("Max. tokens")
    expect(field).to_be_visible()  # without opening the other settings
    expect(field).to_have_value("30")
    page.get_by_label("Method").select_option("random")
    page.get_by_role("button", name="Explain").click()
    wait_until_finished(page)
    assert bodies[0]["max_new_tokens"] == 30


# --- jobs ---


@pytest.mark.usefixtures("slow")
def test_a_reload_restores_the_form_of_a_running_job(page: Page) -> None:
    page.get_by_label("Chat").check()
    settings = {"system": "Be brief.", "preset": "leave-one-out", "unit": "word", "compare": "lime", "seed": "5"}
    fill(page, "Where does she live?", **settings, probes="4000", target=" In Japan", target_span="Japan")
    page.get_by_role("button", name="Add the answer").click()
    page.get_by_label("Message 2", exact=True).fill("In the town.")
    page.get_by_label("Last message of the user").fill("Where is the town?")
    page.get_by_label("What if?").check()
    page.get_by_role("button", name="Explain").click()
    page.wait_for_url("**/#/j/**")
    page.reload()
    expect(page.get_by_label("Last message of the user")).to_have_value("Where is the town?")
    expect(page.get_by_label("Message 1", exact=True)).to_have_value("Where does she live?")
    expect(page.get_by_label("Message 2", exact=True)).to_have_value("In the town.")
    expect(page.locator("#running")).to_be_visible()
    expected = settings | {"method": "reagent", "max_new_tokens": "3", "probes": "4000", "target_span": "Japan"}
    for name, value in {**expected, "target": " In Japan"}.items():
        expect(page.locator(f"#{name}")).to_have_value(value)
    expect(page.get_by_label("What if?")).to_be_checked()
    page.get_by_role("button", name="Cancel").click()


@pytest.mark.usefixtures("slow")
def test_a_request_waits_until_the_running_job_has_ended(page: Page) -> None:
    submit(page, preset="leave-one-out", probes="4000")
    page.wait_for_url("**/#/j/*")
    first = page.url
    expect(page.locator("#progress-bars")).to_contain_text("of at most 4000")
    page.get_by_role("button", name="Explain").click()  # the same request again changes nothing
    assert page.url == first
    submit(page, "The river runs through", preset="leave-one-out", probes="16")
    expect(page).not_to_have_url(first)
    expect(page.locator("#queue")).to_have_text("1 running, 1 waiting")
    expect(page.locator("#progress-bars")).to_contain_text("waiting: 1 explanation before this one")
    expect(page.locator("#pending a").nth(1)).to_have_attribute("aria-current", "true")
    page.locator("#pending a").first.click()
    expect(page.locator("#prompt")).to_have_value(PROMPT)
    expect(page.locator("#progress-bars")).to_contain_text("of at most 4000")  # it was not cancelled
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#history a").first).to_contain_text("The river runs through")
    expect(page.locator("#queue")).to_be_hidden()


@pytest.mark.usefixtures("slow")
def test_a_cancelled_job_can_be_run_again(page: Page, bodies: list[Any]) -> None:
    submit(page, preset="leave-one-out", probes="4000", max_new_tokens="2")
    page.get_by_role("button", name="Cancel").click()
    message = page.locator("#cancelled")
    expect(message).to_contain_text("Cancelled")
    assert violations(page) == []
    page.reload()
    expect(message).to_contain_text("Cancelled")
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#running")).to_be_visible()
    expect(message).to_be_hidden()
    page.get_by_role("button", name="Cancel").click()
    expect(message).to_be_visible()
    assert bodies[0] == bodies[1]


def test_a_rejected_request_leaves_the_result(page: Page, log: BrowserLog) -> None:
    log.expected.append("status of 422")
    submit(page, method="random")
    wait_until_finished(page)
    page.locator("#prompt").fill("  ")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_contain_text("the prompt is empty")
    expect(page.locator("#downloads")).to_be_visible()


# --- on a phone ---


def test_a_link_opens_at_the_result_on_a_phone(phone: Page, browser: Browser, log: BrowserLog) -> None:
    assert not is_at_result(phone)
    submit(phone, method="random")
    wait_until_finished(phone)
    wait_for(lambda: is_at_result(phone))
    other = open_page(browser, phone.url, log, viewport={"width": 390, "height": 500})
    wait_until_finished(other)
    wait_for(lambda: is_at_result(other))
    other.evaluate("scrollTo(0, document.body.scrollHeight)")
    assert not is_at_result(other)
    other.locator("#history a").first.click()  # shown already
    wait_for(lambda: is_at_result(other))
    other.context.close()


# --- the history ---


def test_the_history_shows_the_last_message_of_a_chat(page: Page) -> None:
    expect(page.get_by_role("heading", name="Recent results")).to_be_visible()
    page.get_by_label("Chat").check()
    submit(page, "Where does she live?", system="Be brief.", method="random")
    wait_until_finished(page)
    expect(page.locator("#history a span").first).to_have_text("Where does she live?")


# --- chats ---


def test_an_opened_chat_can_be_changed_and_continued(page: Page, bodies: list[Any]) -> None:
    drop(page, ("why.json", chat().to_json()))
    first, second = page.get_by_label("Message 1", exact=True), page.get_by_label("Message 2", exact=True)
    expect(first).to_have_value("My aunt moved to Japan. Where does she rent a flat?")
    expect(page.get_by_label("Role of message 2")).to_have_value("assistant")
    expect(second).to_have_value("In the countryside?")
    second.fill("In the town?")
    submit(page, "In which town?", max_new_tokens="1", method="random")
    wait_until_finished(page)
    roles = page.locator("#view .reagent-role").all_inner_texts()
    assert roles[:4] == ["system", "user", "assistant", "user"]
    assert [message["content"] for message in bodies[0]["messages"][2:]] == ["In the town?", "In which town?"]
    page.get_by_role("button", name="Remove message 1").click()
    expect(first).to_have_value("In the town?")
    page.get_by_role("button", name="Remove message 1").click()
    expect(page.locator("#turns .item")).to_have_count(0)
    page.get_by_role("button", name="Add the answer").click()
    expect(first).to_have_value("In which town?")
    expect(second).to_be_focused()
    expect(page.get_by_label("Role of message 2")).to_have_value("assistant")
    page.get_by_role("button", name="Explain").click()  # an empty message is not sent
    assert len(bodies) == 1
    page.get_by_role("button", name="Example").click()
    expect(page.locator("#chat-fields")).to_be_hidden()


# --- questions about the output ---


def test_an_answer_can_be_traced(page: Page, bodies: list[Any]) -> None:
    fill(page, target=" Tokyo, dear", answer_span="dear")
    page.get_by_role("button", name="Explain").click()
    wait_until_finished(page)
    assert bodies[0]["answer_span"] == "dear"
    page.reload()
    wait_until_finished(page)
    expect(page.locator("#answer_span")).to_have_value("dear")


def test_a_phrase_and_what_if_can_be_asked_for(page: Page, bodies: list[Any]) -> None:
    fill(page, target=" Tokyo, dear", target_span="Tokyo")
    page.get_by_label("What if?").check()
    page.get_by_role("button", name="Explain").click()
    wait_until_finished(page)
    assert (bodies[0]["target_span"], bodies[0]["what_if"]) == ("Tokyo", True)
    page.reload()
    wait_until_finished(page)
    expect(page.locator("#target_span")).to_have_value("Tokyo")
    expect(page.locator("#what_if")).to_be_checked()
    page.locator("#alternative").fill("Kyoto")
    page.get_by_role("button", name="Ask").click()
    wait_until_finished(page)
    assert "target_span" not in bodies[1]
    page.locator("#method").select_option("random")
    expect(page.locator("#what_if")).to_be_disabled()


def test_tokens_can_be_explained_by_the_output_before_them(page: Page, bodies: list[Any]) -> None:
    fill(page, method="random")
    page.get_by_label("earlier output included").check()
    page.get_by_role("button", name="Explain").click()
    wait_until_finished(page)
    assert bodies == [bodies[0] | {"attribute_target": True}]
    page.reload()
    expect(page.get_by_label("earlier output included")).to_be_checked()


def test_a_comparison_with_the_published_algorithm_asks_both_the_same(page: Page, log: BrowserLog) -> None:
    log.expected.append("422")

    def refuse(route: Route) -> None:
        if route.request.method == "POST":
            route.fulfill(status=422, json={"error": "not run"})
        else:
            route.continue_()

    page.route("**/api/jobs", refuse)
    fill(page, compare="lime")
    for preset, asked in [("paper", True), ("fast", None)]:
        page.locator("#preset").select_option(preset)
        with page.expect_request(lambda request: request.method == "POST") as sent:
            page.get_by_role("button", name="Explain").click()
        assert sent.value.post_data_json.get("attribute_target") is asked


def test_an_opened_explanation_leaves_no_old_settings(page: Page) -> None:
    fill(page, target=" Tokyo", target_span="Tokyo", seed="9", max_new_tokens="7")
    drop(page, ("why.json", make().to_json()))
    expect(page.locator("#target")).to_have_value("")
    expect(page.locator("#target_span")).to_have_value("")
    expect(page.locator("#max_new_tokens")).to_have_value("7")  # an explanation does not record it


# --- loading ---


def test_the_form_is_disabled_until_its_options_are_loaded(browser: Browser, address: str, log: BrowserLog) -> None:
    page = browser.new_context().new_page()
    record(page, log)
    waiting: list[Route] = []
    page.route("**/api/options", lambda route: waiting.append(route))
    page.goto(address)
    expect(page.get_by_text("Loading the methods")).to_be_visible()
    expect(page.get_by_role("button", name="Explain")).to_be_disabled()
    expect(page.locator("#prompt")).to_be_disabled()
    log.expected.append("ERR_FAILED")
    waiting.pop().abort()
    expect(page.get_by_role("alert").first).to_contain_text("cannot be loaded: the service does not answer")
    expect(page.get_by_text("Loading the methods")).to_be_hidden()
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Loading the methods")).to_be_visible()
    page.wait_for_timeout(50)
    waiting.pop().continue_()
    expect(page.get_by_role("button", name="Explain")).to_be_enabled()
    expect(page.get_by_text("Loading the methods")).to_be_hidden()
    expect(page.get_by_role("button", name="Retry")).to_be_hidden()
    submit(page, method="random")
    wait_until_finished(page)
    expect(choices(page)).to_have_count(4)
    page.context.close()
    assert log.unexpected() == []
