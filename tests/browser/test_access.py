"""Light and dark, narrow and wide, for a reader of screens: axe-core finds nothing serious."""

from itertools import product

import pytest

pytestmark = pytest.mark.browser
PLACES = ("#/", "#/step/10", "#/step/10/group/1", "#/step/10/group/1/rollout/2?t=1")


def serious(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"preload": False}).response["violations"]
    found = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    return [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found]


def check_access(shown, *places):
    """Nothing serious is found, and nothing is wider than the window, in any look."""
    for scheme, width in product(("light", "dark"), (1280, 390)):
        shown.page.emulate_media(color_scheme=scheme)
        shown.page.set_viewport_size({"width": width, "height": 844})
        for place in places:
            page = shown.at(place)
            assert serious(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_view_is_accessible(shown):
    check_access(shown, *PLACES, "#/step/10/group/2/rollout/0")  # with all tags


def brightness(page):
    color = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return sum(int(part) for part in color.removeprefix("rgb(").rstrip(")").split(","))


def test_dark_follows_the_system_and_the_button(shown):
    page = shown.at(PLACES[-1])
    assert brightness(page) > 600
    page.emulate_media(color_scheme="dark")
    assert brightness(page) < 150
    page.keyboard.press("t")
    assert page.locator("#theme").inner_text() == "Theme: light" and brightness(page) > 600
    page.click("#theme")
    assert page.locator("#theme").inner_text() == "Theme: dark" and brightness(page) < 150


def test_list_is_behind_a_button_where_the_window_is_narrow(shown):
    shown.page.set_viewport_size({"width": 390, "height": 844})
    page = shown.at(PLACES[-1])
    assert not page.locator("#list").is_visible()
    page.click("#show-list")
    assert page.locator("#list .row").first.is_visible()
    page.locator("#list .row").first.click()
    page.wait_for_selector("h1:text-is('Training step 0, group 0, rollout 0')")
    assert not page.locator("#list").is_visible()


def test_a_table_that_goes_on_has_a_cue(shown):
    page = shown.at(PLACES[2])
    assert page.locator(".goes-on").count() == 0
    page.set_viewport_size({"width": 390, "height": 844})
    table = "[...document.querySelectorAll('.scroll')].at(-1)"
    shown.wait_for(f"{table}.matches('.wide.goes-on')")
    page.locator(".scroll").last.evaluate("e => { e.scrollLeft = e.scrollWidth }")
    shown.wait_for(f"{table}.matches('.wide:not(.goes-on)')")
