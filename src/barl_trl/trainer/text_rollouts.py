"""Episodes in text: environments read what the model says and reply in text, without tools."""

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from accelerate.utils import gather_object
from trl import is_conversational

from ..rewards import Completion
from .turn_rewards import FIELD

_SAID = "made-up words of the model"
"""Stands for a turn of the model where the chat template is asked what it writes behind one."""


def text_rollouts(
    environment_factory: Callable[[], Any], *, max_turns: int = 8
) -> Callable[[list[Completion], Any], dict[str, Any]]:
    """Return a `rollout_func` that plays text environments on TRL's generation.

    An environment has `reset(**row)`, which returns the first observation, a text that follows the
    prompt, or None; and `step(text)`, which gets what the model said in a turn, and returns the
    next observation, the turn's reward and whether the episode is over. Gymnasium's forms, with an
    `info` behind the observation of `reset` and five values of `step`, are taken, too. The row is
    that of the data set, a copy.

    All rollouts of a process take their turns together. An episode ends when the environment says
    so, without another generation; after `max_turns`; when a turn does not end, or no token is
    left. An environment that raises ends its own rollout: it is counted in
    `barl/environment_errors`, and named once.

    The rewards of turns, the environments and so their `answer`, `hypotheses`, `prior`, `solution`
    and `_observation_log_likelihoods` reach [`BARLTrainer`] as those of `environment_factory` do.

    Example:
    ```python
    >>> trainer = BARLTrainer(
    ...     model, args=BARLConfig(credit="turns"), train_dataset=games,
    ...     rollout_func=text_rollouts(Game, max_turns=6),
    ... )  # doctest: +SKIP
    ```
    """
    pool: list[Any] = []

    def play(prompts: list[Completion], trainer: Any) -> dict[str, Any]:
        pool.extend(environment_factory() for _ in range(len(prompts) - len(pool)))
        rows = deepcopy(trainer.rollout_rows)
        pairs = zip(pool[: len(prompts)], prompts, rows, strict=True)
        episodes = [_Episode(*pair, trainer) for pair in pairs]
        prompt_ids, *_ = trainer._tokenize_prompts([one.prompt for one in episodes])
        for one, ids in zip(episodes, prompt_ids, strict=True):
            one.prompt_ids = ids
        for turn in range(1, max_turns + 1):
            playing = [one for one in episodes if not one.is_over]
            if not any(gather_object([bool(playing)])):
                break
            # without a game of its own a process joins in: the others may wait for it
            asked = playing or episodes[:1]
            contexts = [one.prompt_ids + one.ids for one in asked]
            said, logprobs = trainer._generate_single_turn(contexts, None, {}, 1)
            for n, one in enumerate(playing):
                one.take_turn(said[n], logprobs and logprobs[n], is_last=turn == max_turns)
        errors = [one.error is not None for one in episodes]
        metrics = trainer._metrics["train" if trainer.model.training else "eval"]
        errors = gather_object(errors)
        metrics["barl/environment_errors"].append(sum(errors) / len(errors))
        trainer.environments = [one.environment for one in episodes]
        return {
            "prompt_ids": prompt_ids,
            "completion_ids": [one.ids for one in episodes],
            "logprobs": [one.logprobs for one in episodes] if trainer.use_vllm else None,
            "env_mask": [one.mask for one in episodes],
            FIELD: [one.rewards for one in episodes],
        }

    return play


class _Episode:
    """One rollout: an environment, and the tokens of its turns and observations."""

    def __init__(self, environment: Any, prompt: Completion, row: Mapping[str, Any], trainer: Any):
        self.environment, self._trainer = environment, trainer
        self.prompt, self.prompt_ids = prompt, []
        self.ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] = []
        self.rewards: list[float] = []
        self.is_over = False
        self.error: Exception | None = None
        began = self._asked(lambda: environment.reset(**row))
        observation = began[0] if isinstance(began, tuple) else began
        if observation is not None:
            self.prompt = _with_text(prompt, str(observation))

    def take_turn(
        self, said: Sequence[int], logprobs: Sequence[float] | None, *, is_last: bool
    ) -> None:
        """Take what the model said, and what the environment replies."""
        room = self._trainer.max_completion_length - len(self.ids)
        tokenizer, ends = self._trainer._tokenizer, self._trainer.turn_end_ids
        # the model may go on behind padding, which ends a turn
        said = said[: next((k for k, token in enumerate(said, 1) if token in ends), None)]
        self._append(said[:room], 1, logprobs)
        if not self.ids or self.ids[-1] not in ends:  # cut off
            self.is_over = True
            return
        text = tokenizer.decode(said[:room], skip_special_tokens=True)
        reply: Any = None if self.error else self._asked(lambda: self.environment.step(text))
        observation, reward, *rest = (None, None, True) if self.error else reply
        self.rewards.append(float(reward or 0.0))
        self.is_over = any(rest[:-1] or rest) or is_last  # gymnasium's last value is `info`
        if self.is_over:
            return
        ids = _behind_turn(str(observation), self.ids[-1], self.prompt, self._trainer)
        length = len(self.ids) + len(ids)
        self.is_over = length >= self._trainer.max_completion_length
        self.is_over |= len(self.prompt_ids) + length >= _longest_context(self._trainer)
        if not self.is_over:
            self._append(ids, 0, [0.0] * len(ids))

    def _append(self, ids: Sequence[int], own: int, logprobs: Sequence[float] | None) -> None:
        self.ids += ids
        self.mask += [own] * len(ids)
        self.logprobs += (logprobs or [])[: len(ids)]

    def _asked(self, call: Callable[[], Any]) -> Any:
        """Return what the environment says; where it raises, the episode ends behind this turn."""
        try:
            return call()
        except Exception as error:
            self.error = error
            name = type(self.environment).__name__
            self._trainer._say_once(
                ("environment", name),
                f"{name} raised {error!r:.200}: its rollout ends there. "
                "barl/environment_errors counts such rollouts.",
            )
            return None


def _longest_context(trainer: Any) -> int:
    """Return the most tokens that the model, or vLLM, reads."""
    if trainer.use_vllm and trainer.vllm_mode == "colocate":
        return trainer.vllm_generation.llm.llm_engine.model_config.max_model_len
    return getattr(trainer.model.config, "max_position_embeddings", None) or sys.maxsize


def _with_text(prompt: Completion, text: str) -> Completion:
    """Return a prompt with the first observation behind it."""
    if isinstance(prompt, str):
        return prompt + text
    said = "\n\n".join(filter(None, [prompt[-1]["content"], text]))
    return [*prompt[:-1], {**prompt[-1], "content": said}]


def _behind_turn(observation: str, last_id: int, prompt: Completion, trainer: Any) -> list[int]:
    """Return the tokens between a turn that ended with `last_id` and the next one."""
    tokenizer = trainer._tokenizer
    if not is_conversational({"prompt": prompt}):
        return tokenizer.encode(f"\n{observation}\n", add_special_tokens=False)
    messages = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": _SAID},
        {"role": "user", "content": observation},
    ]
    text = tokenizer.apply_chat_template(
        messages,
        tokenize=False,
        add_generation_prompt=True,
        chat_template=trainer.chat_template,
        **trainer.chat_template_kwargs,
    )
    ids = tokenizer.encode(text.partition(_SAID)[2], add_special_tokens=False)
    # what ends the turn in the template is there already
    return ids[1:] if ids[:1] == [last_id] or ids[0] in trainer.turn_end_ids else ids
