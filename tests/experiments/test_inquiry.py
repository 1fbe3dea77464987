"""The games of finding out: replies, beliefs, controls; and the experiment in short."""

import itertools
import json
import math
import random
import re
from collections import Counter, defaultdict
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from barl_trl import BARLTrainer
from barl_trl.credit.bayes import bayes
from barl_trl.synthetic import number as shipped
from experiments import tools
from experiments.chains import __main__ as chains
from experiments.inquiry import arms, draw, parts, pretrained, training
from experiments.inquiry.__main__ import main
from experiments.inquiry.dialogue import DIALOGUES
from experiments.inquiry.environments import NumberGame, RewardedNumberGame
from experiments.inquiry.inquiry import animals, code, letter_marks, number, words
from experiments.inquiry.references import greedy_question, optimal_number_accuracy, reference_play
from experiments.inquiry.taught import TaughtTrainer
from experiments.inquiry.training import Scale, Setting

from ..credit.scored import batches, check, rows, scored
from ..paths import ROOT
from ..tiny import tiny_model, tiny_tokenizer

five_letters = st.text("abc", min_size=5, max_size=5)


@given(guess=five_letters, secret=five_letters)
def test_each_letter_is_marked_as_often_as_the_secret_has_it(guess, secret):
    marks = letter_marks(guess, secret)
    assert [m == "+" for m in marks] == [a == b for a, b in zip(guess, secret, strict=True)]
    for letter in "abc":
        marked = sum(m != "-" for a, m in zip(guess, marks, strict=True) if a == letter)
        assert marked == min(guess.count(letter), secret.count(letter))


@pytest.mark.parametrize("inquiry", [number(error_rate=0.2), code(), words(40), animals()])
def test_replies_come_as_often_as_their_likelihoods_say(inquiry):
    question, secret, rng = inquiry.questions[3], inquiry.hypotheses[5], random.Random(0)
    logs = [inquiry.log_likelihoods(question, reply) for reply in inquiry.replies]
    np.testing.assert_allclose(np.exp(logs).sum(axis=0), 1)
    counts = Counter(inquiry.reply(question, secret, rng) for _ in range(2000))
    for reply, log in zip(inquiry.replies, logs, strict=True):
        p = math.exp(log[inquiry.places[secret]])
        assert abs(counts[reply] / 2000 - p) <= 4 * math.sqrt(p * (1 - p) / 2000)


def test_the_game_of_numbers_is_the_packages():
    assert number().rows(50, seed=3) == shipped.number_rows(50, seed=3)
    one, other = NumberGame(), shipped.NumberGame()
    for game in (one, other):
        game.reset(solution="9")
    for n in (5, 12, 99, 9):
        assert one.at_least(n) == other.at_least(n)
    assert [*np.flatnonzero(one.belief) + 1] == [*range(other.least, other.most + 1)]


def test_a_question_earns_what_its_reply_tells():
    game = RewardedNumberGame()
    game.reset(solution="9")
    _ = [game.at_least(n) for n in (9, 5, 99, 13)]  # 16 numbers, 8, 8, 8, 4
    assert game.turn_rewards == pytest.approx([0.3 / 4, 0, 0, 0.3 / 4])


@pytest.mark.parametrize("questions", [1, 2])
def test_greedy_information_reaches_the_best_accuracy(questions):
    play = reference_play(number(4), greedy_question, questions, games=4)
    assert play.accuracy == optimal_number_accuracy(4, questions)


@given(batches(all_judged=True))
def test_controls_are_the_last_belief_the_outcome_and_the_information_alone(rollouts):
    given_rollouts = scored(rollouts)
    last = [[r.belief[-1][0]] * len(r.logps) for r in rollouts]
    check(rows(arms.final_belief.function(given_rollouts), rollouts), last)
    outcomes = [[r.outcome] * len(r.logps) for r in rollouts]
    check(rows(arms.outcome_batch.function(given_rollouts), rollouts), outcomes)
    both, none = (bayes(given_rollouts, information_weight=c).steps for c in (1.0, 0.0))
    found = arms.information.function(given_rollouts).steps
    np.testing.assert_allclose(found, both - none, atol=1e-9)


def test_the_experiment_in_short(tmp_path):
    lines = tmp_path / "runs.jsonl"
    lines.write_text('{"path":"earlier","seed":7}\n')
    options = ["--quick", "--parts", "number64-long", "--arms", "grpo", "ahead-value"]
    options += ["--seeds", "1", "--collect", str(lines), "--output_dir", str(tmp_path)]
    main(options)
    page = (tmp_path / "quick" / "report.md").read_text()
    assert "guessing at once 1.6 %" in page
    assert "| looking ahead, value, belief | 1 |" in page
    path = tmp_path / "quick" / "number64" / "long" / "ahead-value-tuned-31.json"
    record = json.loads(path.read_text())
    assert [point["step"] for point in record["curve"]] == [*range(0, 33, 4)]
    path.unlink()
    main(options)  # with its line, what is done is not done again: the CPU seconds are the same
    found = {of.pop("path"): of for of in map(json.loads, lines.read_text().splitlines())}
    assert found["number64/long/ahead-value-tuned-31.json"] == record
    assert found["earlier"] == {"seed": 7} and len(found) == 7  # 4 of tuning, 2 reported


def test_what_a_trainer_remembers_changes_nothing(tmp_path, monkeypatch):
    records = []
    for trainer in (training.RememberingTrainer, BARLTrainer):
        monkeypatch.setattr(training, "RememberingTrainer", trainer)
        scale = Scale(steps=0.04, tests=16, final_tests=32, rollouts=16)
        path = tmp_path / f"{trainer.__name__}.json"
        training.run_into(path, "number", "noise", "bayes-0.3", 3, Setting(1e-3, 0.0), scale)
        records.append(json.loads(path.read_text()) | {"cpu_seconds": 0})
    assert records[0] == records[1] and records[0]["curve"][-1]["questions"] > 0


def test_tuning_chooses_the_weight_and_the_best_rival_gets_the_other_rate(tmp_path):
    def reach(game, condition, name, accuracy):
        path = tmp_path / game / condition / f"{name}.json"
        tools.write_json(path, {"final": {"accuracy": accuracy}})

    tuned = {"bayes-0-step": (0.5, 0.54), "bayes-0.3-step": (0.57, 0.5), "bayes-1-step": (0.575, 0)}
    tuned |= {"rloo": (0.3, 0.4), "grpo": (0.3, 0.4)}
    games, seeds = ("number", "number64", "animals"), (101, 102, 103)
    for game, seed, arm, n in itertools.product(games, seeds, tuned, (0, 1)):
        reach(game, "tuning", f"{arm}-{n}-{seed}", tuned[arm][n] + (seed - 102) / 9)
    assert parts.chosen_weight(tmp_path) == "bayes-0.3-step"  # within a point of the highest
    part, scale = parts.PARTS["number-long"], Scale()
    for seed, arm in itertools.product((31, 32, 33), ("rloo", "grpo")):
        assert parts.recheck_jobs(tmp_path, part, scale) == []
        reach("number", "long", f"{arm}-tuned-{seed}", {"rloo": 0.45, "grpo": 0.4}[arm])
    for accuracy, rate, label in ((0.44, 1e-3, "tuned"), (0.46, 5e-4, "other")):
        for n, job in enumerate(parts.recheck_jobs(tmp_path, part, scale)):
            assert job.path.name == f"rloo-other-{31 + n}.json"
            reach("number", "long", job.path.stem, accuracy)
        *_, job = parts.reported_jobs(tmp_path, part, ["grpo", "rloo"], 10, scale)
        assert (job.path.name, job.arguments[4].learning_rate) == (f"rloo-{label}-40.json", rate)


class Compared(TaughtTrainer):
    """Keeps the gradient of what is taught, and one that is computed rollout by rollout."""

    def compute_loss(self, model, inputs, *others, **more):
        taught = super().compute_loss(model, inputs, *others, **more)
        if model.training:
            plain = BARLTrainer.compute_loss(self, model, inputs, *others, **more)
            wanted = sum(self.of_rollout(model, inputs, n) for n in range(16))
            wanted = 0.3 * wanted / inputs["completion_mask"].mul(inputs["tool_mask"]).sum()
            pair, weights = (taught - plain, wanted), [*model.parameters()]
            Compared.found = [torch.autograd.grad(x, weights, retain_graph=True) for x in pair]
        return taught

    def of_rollout(self, model, inputs, n):
        parts = ("prompt", "completion")
        ids = [inputs[f"{part}_ids"][n][inputs[f"{part}_mask"][n].bool()] for part in parts]
        text = self.processing_class.decode(torch.cat(ids))
        asked = re.findall(r'{"number": (\d+)}.*?<tool_response>\n(yes|no)\n', text, re.DOTALL)
        fits = [[(k >= int(q)) == (reply == "yes") for q, reply in asked] for k in range(1, 17)]
        before, box, answer = text.rpartition("\\boxed{")
        prefix = torch.tensor([self.processing_class.encode(before + box)])
        logs = model(prefix).logits[0, -1].log_softmax(-1)
        possible = [str(k) for k, of in enumerate(fits, 1) if all(of)]
        tokens = self.processing_class.convert_tokens_to_ids(possible)
        return -logs[tokens].mean() * bool(box and re.match(r"\d+}", answer))


def test_what_is_taught_is_the_belief_at_the_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "TaughtTrainer", Compared)
    monkeypatch.setattr(training, "EVALUATIONS", 1)
    setting, scale = Setting(1e-3, 0.0), Scale(0.005, tests=8, final_tests=8, rollouts=16)
    arm = "bayes-1-step-taught"
    training.run_into(tmp_path / "a.json", "number", "many", arm, 3, setting, scale)
    torch.testing.assert_close(*Compared.found, atol=1e-6, rtol=1e-4)
    assert max(part.abs().max() for part in Compared.found[1]) > 1e-3


def test_a_model_plays_in_words_from_the_warm_start_to_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrained, "TESTS", 8)
    steps = ["Is it at least 14?\nyes\n", "Is it at least 99?\nno\n", "It is 15.\n"]
    (logs,) = DIALOGUES["number"].observation_likelihood([["15", "3", "16"]], [steps])
    assert logs.tolist() == [[0, -math.inf, 0], [0, 0, 0], [0, 0, 0]]
    tokenizer = tiny_tokenizer()
    tiny_model(tokenizer).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    warm = tmp_path / "number" / "warm" / "warm.json"
    pretrained.warm_up(warm, str(tmp_path), "number", 30)
    for arm in pretrained.COMPARED:
        path = tmp_path / "number" / f"{arm}-0.json"
        pretrained.train_into(path, warm.parent, "number", arm, 0, 2)
    record = json.loads(path.read_text())
    assert len(record["rewards"]) == 2 and record["before"]["accuracy"] <= 1
    assert "bayes, c = 0.3, leave_one_out is ahead by" in pretrained.report(tmp_path, 1)


BEST, NEW, ADDED = "the better rival", "bayes-1-step", ("ahead-own", "bayes-1-step-taught")
TABLES = {  # condition, games, and which arms are compared
    "long": ("long", draw.GAMES, [(NEW, BEST), (NEW, "bayes-0.3"), *((x, NEW) for x in ADDED)]),
    "turns": ("many", ("number-turns", "guess"), [(arm, BEST) for arm in parts.TURNS[2:]]),
}

EVIDENCE, README = ((ROOT / name).read_text() for name in ("docs/evidence.md", "README.md"))


def lines_of(name):
    return sorted(map(json.loads, (ROOT / "experiments" / name).read_text().splitlines()), key=str)


def cell(values):
    return f"{fmean(values):.1f} ± {stdev(values) / len(values) ** 0.5:.1f}"


@pytest.mark.parametrize(("name", "of"), TABLES.items(), ids=TABLES)
def test_the_tables_of_games_are_what_the_trainings_found(name, of):
    runs = draw.reported(ROOT / f"experiments/inquiry/runs-{name}.jsonl", of[0])
    for of_arm in runs.values():  # so that pairs are of one seed
        assert [x["seed"] for x in of_arm] == [*range(31, 31 + max(5, len(of_arm)))]
    found = {key: [100 * x["final"]["accuracy"] for x in of_arm] for key, of_arm in runs.items()}
    for arm in {arm for _, arm in found}:
        shown = (cell(found[game, arm]) if (game, arm) in found else "" for game in of[1])
        assert f"| {arms.ARMS[arm].title} | {' | '.join(shown)} |" in EVIDENCE
    for game in of[1]:
        found[game, BEST] = max((found[game, arm] for arm in parts.RIVALS), key=fmean)
    for arm, other in of[2]:
        title = other if other == BEST else arms.ARMS[other].title
        pairs = [(found.get((game, arm)), found[game, other]) for game in of[1]]
        gains = " | ".join(str(tools.paired(*pair)) if pair[0] else "" for pair in pairs)
        assert f"| {arms.ARMS[arm].title}, less {title} | {gains} |" in EVIDENCE
    first, (arm, _) = next(iter(of[1])), of[2][0]
    credit = arms.ARMS[arm].fields["credit"]
    wanted = f"{fmean(found[first, 'rloo']):.1f} %, `{credit}` {fmean(found[first, arm]):.1f} %"
    assert f"RLOO {wanted}" in README


def test_the_table_of_tuning_is_what_the_trainings_found():
    found = defaultdict(lambda: defaultdict(list))
    for run in lines_of("inquiry/runs-long.jsonl"):
        if run["condition"] == "many":
            rates = found[run["arm"], run["game"]]
            rates[run["setting"]["learning_rate"]].append(100 * run["final"]["accuracy"])
    for arm in parts.LONG:
        of_games = [found[arm, part.game].values() for part in parts.LONG_PARTS]
        shown = (f"{max(map(fmean, rates)):.1f}" if rates else "" for rates in of_games)
        assert f"| {arms.ARMS[arm].title} | {' | '.join(shown)} |" in EVIDENCE


def test_the_table_of_chains_is_what_the_trainings_found():
    found = defaultdict(list)
    for run in lines_of("chains/runs.jsonl"):
        if run.get("seed", 101) < 100:
            found[run["arm"]].append(100 * run["accuracy"])
    for arm, values in found.items():
        gain = "" if arm == "grpo" else f" {tools.paired(values, found['grpo'])} |"
        assert len(values) == 6 and f"| {cell(values)} |{gain}" in EVIDENCE
    low, *_, high = sorted(fmean(v) for arm, v in found.items() if arm.startswith("barl"))
    assert f"GRPO {fmean(found['grpo']):.1f} %, `barl` {low:.1f} to {high:.1f} %" in README
    arms_of = ([f"barl-{b}-{name}" for b in ("0", "1", "inf")] for name in ("step", "none"))
    means = [np.mean([found[arm] for arm in of], axis=0).tolist() for of in arms_of]
    assert f"ahead of `none` by {tools.paired(*means)} points" in EVIDENCE


def test_chains_in_short(tmp_path):
    chains.main(["--quick", "--arms", "grpo", "barl-1-step", "--output_dir", str(tmp_path)])
    page = (tmp_path / "quick" / "report.md").read_text()
    assert re.search(r"\| barl-1-step \| [\d.]+ ± [\d.]+ \| [-+\d., \[\]]+ \| [\d.]+ \|", page)
    assert len([*(tmp_path / "quick").rglob("*.json")]) == 2 * (3 * 3 + 6) + 1  # and the warm start


def test_differences_are_paired_by_seed():
    found = tools.paired([50.0, 70.0, 60.0], [40.0, 50.0, 55.0, 1.0])
    error = math.sqrt(sum((gain - 35 / 3) ** 2 for gain in (10, 20, 5)) / 2 / 3)
    assert found.mean == pytest.approx(35 / 3)
    assert found.high - found.mean == pytest.approx(4.30265 * error, rel=1e-5)  # Student's t, 2
