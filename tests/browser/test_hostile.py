"""Texts of models and data that would be code, markup, or too much."""

import re

import pytest

from ..inspector.rollouts import make_record, metadata_of

pytestmark = pytest.mark.browser
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\u2029\u202eabc<!--"
SEEN = re.sub(r"[\u2028\u2029\u202e]", lambda found: f"⟨U+{ord(found[0]):X}⟩", HOSTILE)
FORMULA = r"$\href{javascript:alert(3)}{x}$ $\htmlClass{a}{b}$ $\includegraphics{http://x.example}$"


def test_hostile_texts_are_texts(make_shown):
    def hostile(records):
        for record in records:
            record |= dict.fromkeys(("solution", "reason", "answer"), HOSTILE)
            record["prompt"] += HOSTILE + FORMULA
            record["tokens"] = [HOSTILE, FORMULA, *record["tokens"][2:]]
            record["hypotheses"] = [HOSTILE, *record["hypotheses"][1:]]
            size = len(record["tokens"])
            record["own_tokens"] = [1, 1, 0] + [1] * (size - 3)
            record |= {"turn_ends": [3, size], "observed_tools": [[HOSTILE], []]}
        return records

    named = {"model": HOSTILE, "reward_names": [HOSTILE]}
    shown = make_shown({"steps": [0], "change": hostile} | named)
    for place in ("#/", "#/step/0", "#/step/0/group/1", "#/step/0/group/1/rollout/0?t=0"):
        page = shown.at(place)
        assert page.locator("img, iframe, object, a[href^=javascript]").count() == 0
    assert page.locator(".token").first.text_content() == SEEN
    assert page.locator(".observation .label").text_content() == SEEN
    assert page.locator(".hypotheses bdi").first.text_content().startswith("</script><script>")
    page.locator(".token").first.hover()
    page.click("#maths")
    page.wait_for_selector(".tokens math")
    assert page.locator("img, iframe, object, a[href^=javascript], [onerror]").count() == 0
    page.keyboard.press("/")
    page.keyboard.type("<img src=x onerror=alert(4)>")
    page.keyboard.press("Enter")
    shown.wait_for("barl.store.parse().q.length > 5")


@pytest.mark.parametrize("key", ["__proto__", "constructor", "toString"])
def test_names_that_every_object_has_are_no_keys(make_shown, key):
    """In the address, and as the reason of a verdict."""

    def change(records):
        return [record | {"reason": key} for record in records]

    shown = make_shown({"steps": [0], "change": change})
    page = shown.at(f"#/step/0/group/1/rollout/0?color={key}&sort={key}&f={key}&q={key}&{key}=1")
    assert page.locator("[data-mode=weight]").get_attribute("aria-pressed") == "true"
    assert page.locator(".token").count() and "native code" not in page.inner_text("main")
    page = shown.at("#/step/0/group/1")
    assert key in page.inner_text("main") and "native code" not in page.inner_text("main")
    shown.at(f"#/{key}/1?sort={key}")


def test_scripts_without_the_nonce_do_not_run(page, site_made):
    page.goto(site_made[0])  # the browser says in the console what it blocked
    blocked = page.evaluate(
        """() => new Promise((done) => {
          document.addEventListener("securitypolicyviolation", (e) => done(e.effectiveDirective));
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.head.append(script);
        })"""
    )
    assert blocked == "script-src-elem"
    assert page.evaluate("window.ran") is None


def test_ten_megabytes_in_a_text_do_not_stop_the_page(make_shown):
    def long(records):
        records[0]["tokens"][1] = "y" * 10_000_000
        records[1]["prompt"] = records[0]["prompt"] = "z" * 10_000_000
        return records[:2]

    shown = make_shown({"steps": [0], "change": long})
    page = shown.at("#/step/0/group/0/rollout/0?t=0")
    assert page.locator("main").evaluate("e => e.textContent.length") < 100_000
    assert "9,980,000 more characters" in page.locator(".tokens").text_content()
    page.keyboard.press("j")
    page.wait_for_selector("h1:text-is('Training step 0, group 0, rollout 1')")


def test_very_many_tokens_are_shown_in_parts(make_shown):
    record = make_record(1, steps=4000)
    shown = make_shown({"steps": [0], "change": lambda _: [record]})
    page = shown.at("#/step/0/group/0/rollout/0?t=3000")
    page.wait_for_selector(".step.at")
    assert page.locator(".token").count() <= 3000
    assert page.locator(".step.at").first.get_attribute("data-t") == "3000"
    page.get_by_role("button", name="Earlier tokens").click()
    assert page.locator(".token").count() <= 3000


def test_run_without_beliefs_is_shown(make_shown):
    def unscored(records):
        of_beliefs = "hypotheses", "member", "answer_logps", "posterior", "step_values", "reason"
        more = "token_logps", "token_weights", "importance_ratios", "answer", "scored_tokens"
        return [r | dict.fromkeys(of_beliefs + more) for r in records]

    shown = make_shown({"steps": [0], "change": unscored, "metadata": metadata_of(credit="grpo")})
    page = shown.at("#/step/0/group/1/rollout/1?t=0")
    assert "No beliefs were scored" in page.locator("main").inner_text()
    assert page.locator("[data-mode=truth]").is_disabled()
    assert page.locator("table.methods tbody th").all_inner_texts()[0].startswith("grpo")


def test_empty_completion_is_shown(make_shown):
    empty = make_record(1, steps=0)
    empty |= {name: [] for name in ("tokens", "token_ids", "token_weights", "token_logps")}
    empty["importance_ratios"] = []
    shown = make_shown({"steps": [0], "change": lambda _: [empty]})
    page = shown.at("#/step/0/group/0/rollout/0")
    assert "The completion is empty." in page.locator(".tokens").inner_text()
