"""From the run to a rollout and back, by links, keys and the address."""

import base64

import pytest
from IPython.display import IFrame

from barl_trl.inspector.site import write_page

from ..inspector.rollouts import write_run

pytestmark = pytest.mark.browser


def crumbs(shown):
    return shown.texts("#crumbs li")


def test_run_step_group_rollout_and_back(shown):
    page = shown.at()
    assert crumbs(shown) == ["run"]
    heading = "Training step 10"
    for link, more in (("step 10", ""), ("group 1", ", group 1"), ("rollout 2", ", rollout 2")):
        page.get_by_role("link", name=link, exact=True).click()
        heading += more
        page.wait_for_selector(f"h1:text-is('{heading}')")
    assert shown.hash() == "#/step/10/group/1/rollout/2"
    assert crumbs(shown) == ["run", "step 10", "group 1", "rollout 2"]
    page.go_back()
    page.wait_for_selector("h1:text-is('Training step 10, group 1')")
    page.go_back()
    page.wait_for_selector("h1:text-is('Training step 10')")
    page.go_forward()
    page.wait_for_selector("h1:text-is('Training step 10, group 1')")


def test_address_says_everything(shown):
    page = shown.at("#/step/0/group/1/rollout/1?t=1&color=truth&f=wrong&sort=tokens&s=0&q=what")
    assert page.locator("#filter").input_value() == "wrong"
    assert page.locator("#sort").input_value() == "tokens"
    assert page.locator("#in-step").input_value() == "0"
    assert page.locator("#search").input_value() == "what"
    assert page.locator("[data-mode=truth]").get_attribute("aria-pressed") == "true"
    page.wait_for_selector("h3:text-matches('^Part 2: tokens 4 to 6')")


KEYS = """for (const key of "jjjk")
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }))"""


def test_keys_that_come_before_the_page_hears_of_its_new_address(shown):
    page = shown.at()
    page.evaluate(KEYS)
    page.wait_for_selector("h1:text-is('Training step 0, group 0, rollout 1')")


def test_keys(shown):
    page = shown.at()
    for key, place in (("j", "0/rollout/0"), ("j", "0/rollout/1"), ("k", "0/rollout/0")):
        page.keyboard.press(key)
        shown.wait_for(f"location.hash === '#/step/0/group/{place}'")
    page.wait_for_selector("h1:text-is('Training step 0, group 0, rollout 0')")
    page.keyboard.press("]")
    page.keyboard.press("]")
    page.wait_for_selector("h3:text-matches('^Part 2: ')")
    page.keyboard.press("[")
    page.wait_for_selector("h3:text-matches('^Part 1: ')")
    page.keyboard.press("3")
    page.wait_for_selector("[data-mode=truth][aria-pressed=true]")
    assert shown.hash() == "#/step/0/group/0/rollout/0?t=0&color=truth"
    for heading in ("Training step 0, group 0", "Training step 0", "run"):
        page.keyboard.press("u")
        page.wait_for_selector(f"h1:text-is('{heading}')")
    page.keyboard.press("/")
    page.keyboard.type("j is text here")
    assert page.locator("#search").input_value() == "j is text here"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()


def test_arrows_move_inside_list_group_text_and_river(shown):
    page = shown.at("#/step/0/group/1")
    page.locator("td[data-r='0'][data-t='0']").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("h3:text-matches('^Part 2: ')")
    assert shown.hash() == "#/step/0/group/1/rollout/1?t=1"
    page.locator(".river").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("h3:text-matches('^Part 3: ')")
    assert page.locator(".river").get_attribute("aria-valuenow") == "2"
    page.locator(".tokens").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#tip:visible")
    assert "id" in page.locator("#say").inner_text()
    page.locator("#list").focus()
    page.keyboard.press("End")
    shown.wait_for("location.hash.startsWith('#/step/20/group/2/rollout/3')")
    shown.wait_for(  # the address is new before the list is drawn again
        "document.getElementById(document.getElementById('list').getAttribute("
        "'aria-activedescendant'))?.ariaSelected === 'true'"
    )


def test_places_that_are_not_there_say_so(shown):
    page = shown.at("#/step/7")
    assert "no rollouts of this training step" in page.locator("main").inner_text()
    page = shown.at("#/step/0/group/0/rollout/99")
    assert "no such rollout" in page.locator("main").inner_text()


def test_the_list_follows_what_is_open(shown):
    page = shown.at("#/step/20")
    first = page.locator("#list .row.opened").first
    assert first.inner_text().startswith("step 20 · group 0 · rollout 0")
    page.goto(shown.address + "#/step/10/group/2")
    page.wait_for_selector("h1:text-is('Training step 10, group 2')")
    opened = shown.texts("#list .row.opened .where")
    assert opened == [f"step 10 · group 2 · rollout {n}" for n in range(4)]
    assert page.evaluate("document.getElementById('list').scrollTop") == 50 * (12 + 8)
    page.keyboard.press("j")
    shown.wait_for("location.hash === '#/step/10/group/2/rollout/0'")


def test_it_works_inside_a_notebook(watched, tmp_path):
    """In a frame with the address that examples/colab_qwen3_lora.ipynb gives it."""
    write_run(tmp_path / "run")
    write_page([tmp_path / "run" / "beliefs"], ["run"], tmp_path / "page")
    html = base64.b64encode((tmp_path / "page" / "index.html").read_bytes()).decode()
    frame = IFrame(f"data:text/html;base64,{html}", width="100%", height=800)
    (tmp_path / "notebook.html").write_text(f"<!doctype html>{frame._repr_html_()}")
    watched.goto((tmp_path / "notebook.html").as_uri())
    inside = watched.frame_locator("iframe")
    inside.get_by_role("link", name="step 10", exact=True).click()
    inside.get_by_role("link", name="group 1", exact=True).click()
    inside.get_by_role("link", name="rollout 2", exact=True).click()
    inside.locator("h1:text-is('Training step 10, group 1, rollout 2')").wait_for()
