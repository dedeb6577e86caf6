"""The page in a real browser."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import regex
from playwright.sync_api import Browser, Page, expect

from views.samples import HOSTILE, PROMPT, by_methods, every_kind, grouped, make
from web.browser.actions import bounding_box, choices, drop, fill, running_text, submit, violations, wait_until_finished
from web.browser.conftest import HOSTILE_NAME, BrowserLog, open_page, record

pytestmark = pytest.mark.xdist_group("browser page")

ATTACK = "</textarea></script><script>alert(1)</script><img src=x onerror=alert(1)>"


def weights(page: Page) -> list[str]:
    """How strongly each token of the prompt is shaded."""
    inks = page.locator("#view .reagent-token .reagent-ink")
    return [
        str(weight) for weight in inks.evaluate_all("all => all.map(ink => ink.style.getPropertyValue('--weight'))")
    ]


def test_the_example_is_ready_to_run(page: Page, prompt: str) -> None:
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(prompt)
    expect(page.locator("#model")).to_have_text(f"model {HOSTILE_NAME}")
    page.get_by_label("Prompt", exact=True).fill("something else")
    page.get_by_role("button", name="Example").click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(prompt)


def test_the_whole_answer_comes_first_and_each_part_has_its_own_shading(page: Page) -> None:
    submit(page)
    wait_until_finished(page)
    assert running_text(page) == PROMPT
    expect(choices(page)).to_have_count(4)
    expect(choices(page).first).to_have_text("whole answer")
    expect(choices(page).first).to_have_attribute("aria-selected", "true")
    first = weights(page)
    assert 0 < max(map(float, first)) <= 1
    choices(page).nth(2).click()
    expect(choices(page).nth(2)).to_have_attribute("aria-selected", "true")
    assert weights(page)[: len(first)] != first
    expect(page.locator("#alternative-label")).to_contain_text(
        choices(page).nth(2).inner_text().split()[0].strip("·≈⚠")
    )
    page.locator("#view .reagent-token").first.hover()
    expect(page.locator("#view .reagent-readout")).to_contain_text("score")


def test_the_page_works_with_the_keyboard_alone(page: Page) -> None:
    fill(page)
    page.get_by_label("Prompt", exact=True).focus()
    page.keyboard.press("Control+Enter")
    wait_until_finished(page)
    choices(page).first.focus()
    page.keyboard.press("ArrowRight")
    expect(choices(page).nth(1)).to_be_focused()
    expect(choices(page).nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    focused = page.locator("#view .reagent-token").nth(1)
    expect(focused).to_be_focused()
    expect(page.locator("#view .reagent-readout")).to_contain_text("position 1")


@pytest.mark.usefixtures("slow")
def test_partial_results_keep_selection_and_focus(page: Page) -> None:
    submit(page, max_new_tokens="2", preset="leave-one-out", probes="4000")  # a preset that reports after each round
    expect(page.locator("#progress-bars progress[value]")).to_be_visible()
    expect(choices(page)).to_have_count(3)
    choices(page).nth(1).click()
    page.locator("#view .reagent-token").nth(3).focus()
    before, drawn = page.locator("#progress-bars").inner_text(), page.locator("#view .reagent-top").inner_text()
    expect(page.locator("#view .reagent-top")).not_to_have_text(drawn, use_inner_text=True)
    expect(page.locator("#progress-bars")).not_to_have_text(before)
    expect(page.locator("#running")).to_be_visible()
    expect(choices(page).nth(1)).to_have_attribute("aria-selected", "true")
    expect(page.locator("#view .reagent-token").nth(3)).to_be_focused()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#running")).to_be_hidden()
    expect(page.locator("#status-message")).to_have_text("Cancelled")
    expect(page.get_by_text("Cancelled. The result is incomplete.")).to_be_visible()
    expect(page.locator("#view .reagent-top")).to_be_visible()


@pytest.mark.usefixtures("slow")
def test_a_running_job_continues_after_a_reload(page: Page) -> None:
    submit(page, probes="64")
    page.wait_for_url("**/#/j/*")
    page.reload()
    wait_until_finished(page)
    assert "#/e/" in page.url
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(PROMPT)


def test_two_methods_are_shown_side_by_side(page: Page) -> None:
    submit(page, compare="occlusion")
    wait_until_finished(page)
    blocks = page.locator("#view .reagent-method")
    expect(blocks).to_have_count(2)
    expect(blocks.nth(1)).to_contain_text("occlusion")
    one, two = bounding_box(blocks.nth(0)), bounding_box(blocks.nth(1))
    assert one["y"] == two["y"]
    assert one["x"] < two["x"]
    drawn = blocks.nth(1).inner_text()
    choices(page).nth(1).click()
    assert blocks.nth(1).inner_text() != drawn
    page.reload()
    wait_until_finished(page)
    expect(blocks).to_have_count(2)
    expect(page.locator("#downloads a", has_text="HTML")).to_have_count(2)


@pytest.mark.usefixtures("slow")
def test_a_click_on_the_answer_chooses_its_part_for_all_methods(page: Page) -> None:
    submit(page, method="occlusion", compare="random")
    wait_until_finished(page)
    last = page.get_by_role("group", name="random").locator("[data-output]").last
    last.click()
    expect(choices(page).last).to_have_attribute("aria-selected", "true")


def test_an_opened_method_stays_open_while_results_arrive(page: Page) -> None:
    submit(page, compare="lime", preset="leave-one-out", probes="4000")
    summary = page.locator("#view .reagent-summary").first
    summary.click()
    token = page.locator("#view .reagent-full .reagent-token").nth(2)
    token.focus()
    drawn = summary.inner_text()
    expect(summary).not_to_have_text(drawn)  # it shows the passes so far
    expect(token).to_be_focused()
    page.get_by_role("button", name="Cancel").click()


def test_contrast_with_another_answer(page: Page) -> None:
    submit(page)
    wait_until_finished(page)
    token = page.locator("#view .reagent-choice .reagent-label").nth(1).inner_text()
    choices(page).nth(2).click()
    page.locator("#alternative").fill("Kyoto")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#view .reagent-heading")).to_contain_text(f"Why {token} and not")
    wait_until_finished(page)
    expect(choices(page)).to_have_count(2)
    expect(choices(page).nth(1)).to_have_attribute("aria-selected", "true")
    saved = page.evaluate("id => fetch('api/explanations/' + id).then(r => r.json())", page.url.rsplit("/", 1)[1])
    assert saved["target"]["kind"] == "contrast"
    assert saved["target"]["index"] == 1


def test_a_link_opens_a_saved_explanation(page: Page, browser: Browser, address: str, log: BrowserLog) -> None:
    submit(page, unit="word", seed="7")
    wait_until_finished(page)
    drawn, link = (
        page.locator("#view").inner_text(),
        page.get_by_role("link", name="Link to this").get_attribute("href"),
    )
    other = open_page(browser, f"{address}{link}", log)
    wait_until_finished(other)
    assert other.locator("#view").inner_text() == drawn
    expect(other.locator("#unit")).to_have_value("word")
    expect(other.locator("#seed")).to_have_value("7")
    other.context.close()
    listed = page.locator("#history a").first
    expect(listed).to_contain_text("in the capital,")
    expect(listed).to_have_attribute("aria-current", "true")
    page.locator("#history a").last.click()
    expect(page.locator("#history a").last).to_have_attribute("aria-current", "true")


def test_an_explanation_can_be_downloaded(page: Page) -> None:
    submit(page)
    wait_until_finished(page)
    beginnings = {"HTML": b"<!doctype html>", "JSON": b'{"schema":', "PNG": b"\x89PNG"}
    for kind, beginning in beginnings.items():
        with page.expect_download() as waiting:
            page.get_by_role("link", name=f"Download {kind}").click()
        assert re.fullmatch(rf"reagent-\w+\.{kind.lower()}", waiting.value.suggested_filename)
        assert Path(waiting.value.path()).read_bytes().startswith(beginning)


def test_the_downloaded_file_shows_the_same_view(page: Page, browser: Browser, log: BrowserLog, tmp_path: Path) -> None:
    submit(page)
    wait_until_finished(page)
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download HTML").click()
    waiting.value.save_as(tmp_path / "why.html")
    downloaded = browser.new_context().new_page()
    record(downloaded, log)
    downloaded.goto((tmp_path / "why.html").as_uri())
    log.requests.remove((tmp_path / "why.html").as_uri())  # no other request is allowed
    for part in ("context", "heading", "top", "facts"):
        assert downloaded.locator(f".reagent-{part}").inner_text() == page.locator(f".reagent-{part}").inner_text()
    choices(downloaded).nth(1).click()
    choices(page).nth(1).click()
    assert downloaded.locator(".reagent-top").inner_text() == page.locator(".reagent-top").inner_text()
    assert violations(downloaded) == []
    downloaded.context.close()


def test_a_chat_is_shown_by_message(page: Page) -> None:
    page.get_by_label("Chat").check()
    submit(page, "Where does she live?", system="Be brief.")
    wait_until_finished(page)
    assert page.locator("#view .reagent-role").all_inner_texts()[:2] == ["system", "user"]
    page.reload()
    wait_until_finished(page)
    expect(page.get_by_label("Chat")).to_be_checked()
    expect(page.get_by_label("System message")).to_have_value("Be brief.")
    expect(page.get_by_label("Last message of the user")).to_have_value("Where does she live?")


def test_a_dropped_file_is_shown(page: Page) -> None:
    drop(page, ("why.json", make(stderr=True).to_json()))
    expect(page.locator("#view .reagent-heading")).to_have_text("Why ·Tokyo? (probability 54.7%)")
    expect(page).to_have_title("Why ·Tokyo? – reagent")
    expect(page.locator("#downloads")).to_be_hidden()
    expect(page.locator("#drop")).to_be_hidden()
    page.set_input_files(
        "#file", files=[{"name": "b.json", "mimeType": "", "buffer": make("a b", "!").to_json().encode()}]
    )
    expect(page.locator("#view .reagent-context")).to_have_text("a b!")


def test_an_opened_file_without_a_replacer_resets_the_replacer(page: Page) -> None:
    fill(page, replacer="random")
    drop(page, ("why.json", replace(make(method={"id": "reagent", "preset": "fast"}), replacer=None).to_json()))
    expect(page.locator("#preset")).to_have_value("fast")
    expect(page.locator("#replacer")).to_be_enabled()
    expect(page.locator("#replacer")).to_have_value("auto")


def test_the_kind_of_removal_can_be_chosen(page: Page) -> None:
    fill(page)
    removal, replacer = page.get_by_label("Removal"), page.get_by_label("Replacer")
    assert removal.locator("option").all_text_contents() == ["default", "delete", "mask", "replace"]
    expect(replacer).to_be_enabled()  # a named replacer changes the default
    submit(page, removal="mask")
    expect(replacer).to_be_disabled()
    wait_until_finished(page)
    expect(page.locator("#view .reagent-facts")).to_contain_text("removal mask")
    page.locator("#removal").select_option("replace")
    expect(replacer).to_be_enabled()
    page.locator("#preset").select_option("paper")
    expect(removal).to_be_hidden()
    page.locator("#method").select_option("occlusion")
    expect(removal).to_have_value("")


def test_an_opened_explanation_selects_its_kind_of_removal(page: Page) -> None:
    fill(page)
    why = replace(make(method={"id": "reagent", "preset": "fast", "removal": "mask"}), replacer=None)
    drop(page, ("why.json", why.to_json()))
    expect(page.locator("#removal")).to_have_value("mask")
    drop(page, ("why.json", replace(why, method={**why.method, "removal": "delete"}).to_json()))
    expect(page.locator("#removal")).to_have_value("")
    expect(page.locator("#replacer")).to_be_enabled()


def linked(page: Page) -> list[str]:
    return page.locator("#view .reagent-token.reagent-linked").all_text_contents()


def test_a_member_of_a_group_outlines_the_others(page: Page) -> None:
    drop(page, ("why.json", grouped(passed=False).to_json()))
    expect(page.locator("#view .reagent-failure")).to_contain_text("Not sufficient: the 2 most important tokens alone")
    tokens, groups = page.locator("#view .reagent-token"), page.locator("#view .reagent-group")
    expect(groups).to_have_count(2)
    tokens.nth(4).hover()
    assert linked(page) == [" Japana", " Japana"]
    expect(tokens.nth(11).locator(".reagent-ink")).to_have_css("outline-style", "dashed")
    tokens.nth(0).hover()
    assert linked(page) == []
    groups.nth(1).focus()
    assert linked(page) == [" flatb", " capitalb", ",b"]
    page.emulate_media(media="print")
    expect(tokens.nth(4).locator("sup")).to_be_visible()


def test_compared_methods_outline_their_own_groups(page: Page) -> None:
    first, second, _ = by_methods(grouped())
    drop(page, ("a.json", first.to_json()), ("b.json", replace(second, groups=(), sufficiency=None).to_json()))
    methods = page.locator("#view .reagent-method")
    methods.nth(1).locator(".reagent-token").nth(4).hover()
    assert linked(page) == [" Japana", " Japana"]
    methods.nth(0).locator(".reagent-group").nth(1).hover()
    assert linked(page) == [" flatb", " capitalb", ",b"]


def test_two_files_are_compared_if_their_texts_are_equal(page: Page) -> None:
    other: dict[str, Any] = {"method": {"id": "lime"}, "important": " aunt"}
    drop(page, ("a.json", make().to_json()), ("b.json", make(**other).to_json()))
    expect(page.locator("#view .reagent-method")).to_have_count(2)
    drop(page, ("a.json", make().to_json()), ("b.json", make("a b", "!").to_json()))
    expect(page.locator("#view .part")).to_have_count(2)
    expect(page.locator("#contrast")).to_be_hidden()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (("why.json", "no JSON"), "why.json is not JSON"),
        (("why.json", '{"schema": "other/1"}'), "schema"),
        ((f"{ATTACK}.json", "["), f"{ATTACK}.json is not JSON"),
    ],
)
def test_a_wrong_file_is_an_error_on_the_page(page: Page, log: BrowserLog, file: tuple[str, str], message: str) -> None:
    log.expected.append("status of 422")
    drop(page, file)
    expect(page.get_by_role("alert")).to_contain_text(message)


def test_a_rejected_request_is_an_error_on_the_page(page: Page, log: BrowserLog, address: str) -> None:
    log.expected += ["status of 422", "status of 413", "status of 404"]
    submit(page, "x " * 15_000)
    expect(page.get_by_role("alert")).to_contain_text("at most 20,000")
    submit(page, "  \n ")
    expect(page.get_by_role("alert")).to_contain_text("the prompt is empty")
    expect(page.locator("#running")).to_be_hidden()
    submit(page, "far too long for this model " * 30)  # rejected by the worker
    expect(page.get_by_role("alert")).to_contain_text("128")
    submit(page)
    wait_until_finished(page)
    expect(page.get_by_role("alert")).to_be_empty()
    page.goto(f"{address}#/e/0000000000000000")
    expect(page.get_by_role("alert")).to_contain_text("there is no explanation")
    page.goto(f"{address}#/j/0000000000000000")
    expect(page.get_by_role("alert")).to_contain_text("there is no job")


def test_markup_is_shown_as_text(page: Page, log: BrowserLog) -> None:
    submit(page, ATTACK + " is", target=" <b>bold</b>")
    wait_until_finished(page)
    assert "".join(page.locator("#view .reagent-token").all_text_contents()) == ATTACK + " is"
    expect(page.locator("#view .reagent-facts")).to_contain_text(HOSTILE_NAME)
    expect(page.locator("#history a").first).to_contain_text("<b>bold</b>")
    hostile = make(HOSTILE.replace("\ud83d", ""), ATTACK, model={"id": ATTACK}, method={"id": ATTACK, "preset": ATTACK})
    drop(page, ("why.json", hostile.to_json()))
    expect(page.locator("#view .reagent-facts")).to_contain_text(ATTACK)
    drop(page, ("a.json", hostile.to_json()), ("b.json", hostile.to_json()))
    expect(page.locator("#view .reagent-method")).to_have_count(2)
    page.goto(page.url.split("#")[0] + "#/e/<img src=x onerror=alert(1)>")
    log.expected.append("status of 404")
    expect(page.get_by_role("alert")).to_contain_text("onerror")
    assert page.locator("img, script:not([src]), main b b, iframe").count() == 0


def test_right_to_left_text_is_shown_from_the_right(page: Page) -> None:
    drop(page, ("why.json", make("انتقلت عمتي إلى اليابان 👩🏽‍🏫 وهي الآن في", " طوكيو").to_json()))
    context = page.locator("#view .reagent-context")
    expect(context).to_contain_text("👩🏽‍🏫")
    tokens = context.locator(".reagent-token")
    assert bounding_box(tokens.nth(0))["x"] > bounding_box(tokens.nth(1))["x"], "the first word is on the right"
    expect(page.get_by_label("Prompt", exact=True)).to_have_attribute("dir", "auto")


SCRIPTS = {
    "Hindi": ("राम की बहन दिल्ली में", " रहती है"),
    "Arabic": ("انتقلت عمتي إلى", " اليابان"),
    "Chinese": ("她住在日本的", "首都。"),
    "emoji": ("a 👨\u200d👩\u200d👧 in 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f or", " 👋🏽❤️"),
    "code": ("def f(x):\n\tif x > 1:\n", "\t\treturn x * f(x - 1)\n"),
}


# The letters of groups are marks beside the text.
TEXTS_WITHOUT_MARKS = """nodes => nodes.map(node => {
  const copy = node.cloneNode(true);
  copy.querySelectorAll("[aria-hidden]").forEach(mark => mark.remove());
  return copy.textContent;
})"""


def test_every_script_is_shown_without_breaking_a_character(page: Page) -> None:
    """The tokens of the model are single bytes of these characters."""
    for seed, (prompt, answer) in enumerate(SCRIPTS.values(), start=200):
        submit(page, prompt, target=answer, seed=str(seed))
        expect(page.locator("#view .reagent-facts")).to_contain_text(f"seed {seed}")
        wait_until_finished(page)
        for unit in (page.locator("#view .reagent-token"), page.locator("#view .reagent-answer")):
            texts = [text.replace("⏎", "") for text in unit.evaluate_all(TEXTS_WITHOUT_MARKS)]
            joined = "".join(texts).strip()
            assert joined == (prompt if unit.first.get_attribute("data-position") else answer).strip()
            assert [c for text in texts for c in regex.findall(r"\X", text)] == regex.findall(r"\X", "".join(texts))
        names = page.locator("#view .reagent-top .reagent-name").all_inner_texts()
        assert not set("".join(names)) & set("\ufffd⁺"), names


@pytest.mark.parametrize("width", [1280, 390])
def test_a_prompt_of_600_tokens_opens_at_its_strongest_word(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    prompt = " ".join(f"w{i}" for i in range(600))
    drop(page, ("why.json", make(prompt, " a b c", important=" w250", stderr=True, display_unit="word").to_json()))
    expect(choices(page).first).to_have_text("whole answer")
    context = page.locator("#view .reagent-context")
    assert running_text(page) == prompt
    assert context.text_content() == prompt + " a b c"  # the answer is there too
    strongest = context.locator('[data-position="250"]')
    box, word = bounding_box(context), bounding_box(strongest)
    assert box["height"] < 420
    assert box["y"] < word["y"] < box["y"] + box["height"] - word["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    place = strongest.evaluate("node => 100 * node.offsetTop / node.closest('.reagent-context').scrollHeight")
    image = context.evaluate("node => getComputedStyle(node).backgroundImage")  # a mark at the edge, where it is
    assert [float(mark) for mark in re.findall(r"gradient\(rgba\(0, 0, 0, 0\) ([\d.]+)%", image)] == [
        pytest.approx(place, abs=0.1)
    ]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_the_page_is_accessible_and_fits_the_window(
    browser: Browser, address: str, log: BrowserLog, width: int, scheme: Any
) -> None:
    page = open_page(browser, address, log, color_scheme=scheme, viewport={"width": width, "height": 800})

    def check(state: str, within: str = "#result") -> None:  # the rest stays as it is in the first state
        assert violations(page, within) == [], state
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{state}: wider than the window"

    check("empty", "html")
    submit(page, compare="attention")
    wait_until_finished(page)
    check("compared")
    drop(
        page,
        ("why.json", make(completion=" Tokyo, and", stderr=True, stopped=["settled", "unsettled", "flat"]).to_json()),
    )
    expect(choices(page)).to_have_count(4)
    check("one")
    for seed, name in enumerate(("zero", "no context", "chat", "sentences", "groups", "insufficient"), start=100):
        drop(page, ("why.json", replace(every_kind()[name], seed=seed).to_json()))
        expect(page.locator("#view .reagent-facts")).to_contain_text(f"seed {seed}")
        check(name)
    drop(page, ("why.json", "no JSON"))
    expect(page.get_by_role("alert")).not_to_be_empty()
    check("error", "html")
    assert log.unexpected() == []
    page.context.close()
