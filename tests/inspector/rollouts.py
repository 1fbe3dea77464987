"""Small records with real posteriors: random likelihoods through `posterior.py`. And records of a
trainer.
"""

import hashlib
import random
from copy import copy
from dataclasses import replace

import pyarrow as pa
import torch
from datasets import Dataset

from barl_trl import BARLTrainer
from barl_trl.posterior import posterior, values_under
from barl_trl.rewards import cost
from barl_trl.trainer.config import BARLConfig, own_fields
from barl_trl.trainer.evidence import TaskFunctions
from barl_trl.trainer.records import FOLDER, SCHEMA, file_name, read_metadata, read_records
from barl_trl.trainer.records import write_records as write_records_of

from ..tiny import tiny_model
from ..trainer.playing import call, described, speaking
from ..trainer.rollouts import (
    COMPLETIONS,
    OUTCOMES,
    ROWS,
    config,
    given_rollouts,
    task_function,
    trainer,
    weights_of,
)
from ..trainer.test_agents import agent, look

_CONFIG = BARLConfig(bf16=False)  # another one would reset accelerate


def metadata_of(**settings):
    """What a run with these settings says of its records."""
    how = _set(copy(_CONFIG), settings).settings
    return {"reward_names": ["accuracy"], "model": "tiny", "settings": how}


def _set(args, settings):
    """Set fields, and the options of the credit."""
    fields = {one.name for one in own_fields()}
    vars(args).update({name: value for name, value in settings.items() if name in fields})
    args.credit_options = {n: value for n, value in settings.items() if n not in fields}
    args.check_credit_options()
    return args


METADATA = metadata_of()
WORDS = ("Try ", "7", " = ", "no", ".\n", "x", " so ")
STEP_TOKENS = 3


def make_record(seed, *, step=0, group=0, rollout=0, outcome=1.0, steps=4, size=3, prompt=None):
    """A record of a scored rollout; its last token ends the turn and has no step."""
    random.seed(seed)
    generator = torch.Generator().manual_seed(seed)
    prompt = prompt or f"system\nWhat is {group} and {step}?\nassistant"
    logps = -4 * torch.rand(1, steps + 1, size, generator=generator)
    belief = posterior(logps, beta=1.0)
    values, closing = values_under(belief, logps, torch.tensor([outcome]))
    tokens = steps * STEP_TOKENS + 1
    truth = str(group + step)
    answers = [truth, *(f"other{i}" for i in range(1, size))]
    member = 0 if outcome else 1
    weights = [*values[0].repeat_interleave(STEP_TOKENS).tolist(), closing.item()]
    return {
        **{"step": step, "group": group, "rollout": rollout},
        "prompt_id": hashlib.sha256(prompt.encode()).hexdigest()[:12],
        "prompt": prompt,
        "solution": truth,
        "token_ids": [random.randrange(1000) for _ in range(tokens)],
        "tokens": [random.choice(WORDS) for _ in range(tokens - 1)] + ["<end>"],
        "token_logps": (-2 * torch.rand(tokens, generator=generator)).tolist(),
        "importance_ratios": (0.5 + torch.rand(tokens, generator=generator)).tolist(),
        "token_weights": [weight - 0.6 for weight in weights],
        "step_ends": [STEP_TOKENS * (t + 1) for t in range(steps)],
        "step_values": values[0].tolist(),
        "rewards": [outcome],
        **{"outcome": outcome, "advantage": outcome - 0.5},
        "answer": answers[member],
        "hypotheses": answers,
        "member": member,
        "answer_logps": logps[0].tolist(),
        "posterior": belief[0].tolist(),
        "reason": "equal numbers" if outcome else "different",
        "is_cut_off": False,
        "scored_tokens": 100 + seed,
        **dict.fromkeys(("own_tokens", "turn_ends", "observed_tools", "ended_in_call")),
        "has_truth": True,
        **dict.fromkeys(("ended_by_tool", "cost", "outcomes_under", "predicted_rewards")),
        **dict.fromkeys(("turn_rewards", "states")),
    }


def make_batch(step, *, groups=3, size=4):
    """Records of whole groups; the first group's outcomes are equal."""

    def one(g, n):
        sizes = {"outcome": float(g == 0 or n % 2), "steps": 2 + (g + n) % 4}
        return make_record(1000 * step + 10 * g + n, step=step, group=g, rollout=n, **sizes)

    return [one(g, n) for g in range(groups) for n in range(size)]


def write_records(path, records, metadata):
    """Writes records that are mappings from the columns' names; one that is missing is null."""
    table = pa.Table.from_pylist(records, SCHEMA)
    write_records_of(path, [table], metadata)


def write_run(
    folder, *, steps=(0, 10, 20), change=lambda records: records, metadata=METADATA, **more
):
    """Writes records of a run; returns all of them."""
    written = []
    for step in steps:
        records = change(make_batch(step))
        write_records(folder / "beliefs" / file_name(step), records, metadata | more)
        written += records
    return written


REWARDS = {
    text: outcome
    for prompt, texts in COMPLETIONS.items()
    for text, outcome in zip(texts, OUTCOMES[prompt], strict=True)
}
UNUSABLE = [row | {"solution": None} for row in ROWS[4:]]


def reward(completions, **_):
    return [None if text == "no idea" else REWARDS[text] + len(text) / 99 for text in completions]


class Recorder:
    """A trainer that records its rollouts again and again, under one setting after the other.

    Some are cut off, one has no reward, and the last group has no usable truth.
    """

    rows = ROWS + UNUSABLE

    def __init__(self, tokenizer, folder):
        self.folder, self.args = folder, config(folder, log_beliefs=True)
        given = given_rollouts(cut_off=[COMPLETIONS["1+1?"][3]])
        options = {"rollout_func": given, "reward_funcs": reward}
        self.trainer = trainer(tiny_model(tokenizer), tokenizer, self.args, **options)

    def records(self, **settings):
        """Returns the records of training with these settings, and their metadata."""
        made, args = self.trainer, copy(self.args)  # another config would reset accelerate
        _set(args, settings)
        made.args, made.credit = args, args.own_credit
        made.scorer = replace(made.scorer, args=args, credit=made.credit)
        made._recorder.on_train_begin(args, made.state, made.control)
        weights_of(made, self.rows)
        folder = self.folder / FOLDER
        return [*read_records(folder)], read_metadata(folder / file_name(1))


CANDIDATES = [*map(str, range(1, 6)), "0.5", "2.5"]
PRIOR = [1.0, 2.0, 1.0, 1.0, 0.5, 1.0, 0.0]


@task_function
def seen(step, texts):
    """Log-likelihoods that rule out, favour, and contradict, as the lengths of texts have it."""
    places = [len(step) + 3 * len(text) + text.count("2") for text in texts]
    return [float("-inf") if place % 4 == 0 else -float(place % 3) for place in places]


@task_function
def foretold(step, texts):
    """Rewards that each hypothesis predicts."""
    return [(len(step) + len(text)) % 3 / 2 for text in texts]


@cost
def price(completions, **_):
    return [-len(text) / 100 for text in completions]


class TaskRecorder(Recorder):
    """The same of rollouts whose task lists hypotheses, says what observations mean, and has costs.

    Of the first prompt the truth is listed, of the second it is not, and the last has no truth.
    """

    TASK = {"hypotheses_column": "candidates", "prior_column": "prior", "belief": "task"}

    def __init__(self, tokenizer, folder):
        listed = {"candidates": CANDIDATES, "prior": PRIOR}
        self.rows = [row | listed for row in ROWS + UNUSABLE]
        self.folder = folder
        self.args = config(folder, log_beliefs=True, reward_weights=[2.0, 0.5], **self.TASK)
        given = {"rollout_func": given_rollouts(cut_off=[COMPLETIONS["1+1?"][3]])}
        given |= {"train_dataset": Dataset.from_list(self.rows), "observation_likelihood": seen}
        given |= {"reward_funcs": [reward, price]}
        self.trainer = trainer(tiny_model(tokenizer), tokenizer, self.args, **given)

    def records(self, functions=None, **settings):
        told = TaskFunctions(observation_likelihood=seen)._replace(**(functions or {}))
        self.trainer.scorer = replace(self.trainer.scorer, functions=told)
        return super().records(**settings)


PLAYS = [
    [call("look", key=0) + call("look", key=1), call("look", key=2), r"It is \boxed{12}"],
    [r"At once \boxed{7}"],
    ["<think>hm</think>\n" + call("look", key=3), r"So \boxed{12}"],
    [*[call("look", key=4)] * 3],
]


def record_agents(folder, credit):
    """Returns a trainer of agents and the records that it wrote of `PLAYS`."""
    settings = {"credit": credit, "log_beliefs": True, "step_size": 99}
    settings |= {"max_tool_calling_iterations": 2}
    made = agent(folder, tools=[look], **settings)
    speaking(made.model, made._tokenizer, PLAYS)
    made.train()
    return made, [*read_records(folder / FOLDER)]


class Game:
    """A secret number; `noise` is the log-likelihood of an answer that a number does not give."""

    noise = float("-inf")

    def reset(self, secret, **row):
        self.secret, self.answer = int(secret), None

    @described
    def at_least(self, number: int) -> str:
        return "yes" if self.secret >= number else "no"

    @described
    def submit(self, number: int) -> str:
        self.answer = number
        return "noted"

    def _observation_log_likelihoods(self, hypotheses, steps):
        return [self._seen(hypotheses, *step) for step in steps]

    def _seen(self, hypotheses, said, *told):
        if not told or told[0]["content"] == "noted":
            return [0.0] * len(hypotheses)
        asked = said["tool_calls"][0]["function"]["arguments"]["number"]
        is_yes = told[0]["content"] == "yes"
        return [0.0 if (int(one) >= asked) == is_yes else self.noise for one in hypotheses]


class JudgedGame(Game):
    def get_reward(self) -> float:
        return float(self.answer == self.secret)


@cost
def questions(completions, **_):
    return [-0.05 * sum("tool_calls" in message for message in rollout) for rollout in completions]


GAMES = [
    [*(call("at_least", number=n) for n in (9, 5, 3)), call("submit", number=3), "Done."],
    [call("submit", number=7), "Done."],
    [call("at_least", number=2), call("submit", number=4), "Done."],
    [call("at_least", number=9), "I do not know"],
]
"""Questions and answers where the secret is 3."""


def record_games(folder, *, size=16, noise=Game.noise, has_truth=True, **settings):
    """Returns the records of `GAMES` with the numbers up to `size` as hypotheses."""
    game = type("Game", (JudgedGame if has_truth else Game,), {"noise": noise})
    row = {"secret": "3", "numbers": [str(n) for n in range(1, size + 1)]}
    row["prompt"] = [{"role": "user", "content": "Which number is it?"}]
    defaults = {"credit": "bayes", "belief": "task", "hypotheses_column": "numbers"}
    defaults |= {"log_beliefs": True, "max_tool_calling_iterations": 4}
    given = {"cls": BARLTrainer, "reward_funcs": [questions], "environment_factory": game}
    rows = [row | ({"solution": "3"} if has_truth else {})] * 4
    made = agent(folder, rows=rows, **given, **defaults | settings)
    speaking(made.model, made._tokenizer, GAMES)
    made.train()
    return [*read_records(folder / FOLDER)]
