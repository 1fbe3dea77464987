"""Episodes in text: environments read what the model says and reply in text, without tools."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from inspect import isawaitable, signature
from typing import Any

from accelerate.utils import gather_object

from ..plausibility.elicitation import THOUGHT_END, THOUGHT_START
from ..rewards import Completion
from .boundary import guarded, heard
from .turn_rewards import FIELD
from .turns import HEARD, told_answer, written_behind


def text_rollouts(
    environment_factory: Callable[[], Any], *, max_turns: int = 8
) -> Callable[[list[Completion], Any], dict[str, Any]]:
    """Return a `rollout_func` that plays text environments on TRL's generation.

    An environment has `reset`, which gets copies of those columns of the row that it takes, and
    returns the first observation, a text that follows the prompt, or None; and `step(text)`, which
    gets what the model said in a turn, without its thought, and returns the next observation, the
    turn's reward or None, and whether the episode is over. Gymnasium's forms are taken, too.

    All rollouts of a process take their turns together. An episode also ends after `max_turns`,
    when a turn does not end, or no token is left. An environment that raises ends its own rollout
    and is not used again (`barl/environment_errors`). This function raises if all of the first
    batch do, or if one returns something else than the above. What environments tell reaches
    [`BARLTrainer`] as that of `environment_factory` does.

    Example:
        >>> trainer = BARLTrainer(
        ...     model, args=BARLConfig(credit="turns"), train_dataset=games,
        ...     rollout_func=text_rollouts(Game, max_turns=6),
        ... )  # doctest: +SKIP
    """
    if not callable(environment_factory):
        raise TypeError(f"environment_factory must be a class, got {environment_factory}.")
    if not isinstance(max_turns, int) or max_turns < 1:
        raise ValueError(f"max_turns must be a whole number of at least 1, got {max_turns!r}.")
    pool: list[Any] = []

    def play(prompts: list[Completion], trainer: Any) -> dict[str, Any]:
        pool.extend(environment_factory() for _ in range(len(prompts) - len(pool)))
        if len({*map(id, pool)}) < len(pool):
            raise ValueError("environment_factory must make one for each rollout, got one twice.")
        rows = deepcopy(trainer.rollout_rows)
        episodes = [_Episode(*of_row, trainer) for of_row in zip(pool, prompts, rows, strict=False)]
        for one in episodes:
            if one.error:  # what it knows may be of an earlier game
                one.environment = environment_factory()
            given = told_answer(one.environment)
            if given is not None and given.answer is not None:
                raise ValueError(f"reset must set answer to None, got {given.answer!r:.80}.")
        trainer.environments = [one.environment for one in episodes]
        trainer._tasks = trainer._told_tasks()
        prompt_ids, *_ = trainer._tokenize_prompts([one.prompt for one in episodes])
        for one, ids in zip(episodes, prompt_ids, strict=True):
            one.context += ids
        for turn in range(1, max_turns + 1):
            playing = [one for one in episodes if not one.is_over]
            # vLLM and sharded models generate for all processes together, equally much for each
            most = max(gather_object([len(playing)]))
            contexts = [one.context for one in [*playing, *episodes][:most]]
            if not most:
                break
            said, logprobs = trainer._generate_single_turn(contexts, None, {}, 1)
            for n, one in enumerate(playing):
                one.take_turn(said[n], logprobs and logprobs[n], is_last=turn == max_turns)
        pool[: len(prompts)] = [one.environment for one in episodes if not one.error]
        _log_errors([one.error if one.rewards or one.error else None for one in episodes], trainer)
        return {
            "prompt_ids": prompt_ids,
            "completion_ids": [one.context[len(one.context) - len(one.mask) :] for one in episodes],
            "logprobs": [one.logprobs for one in episodes] if trainer.use_vllm else None,
            "env_mask": [one.mask for one in episodes],
            FIELD: [one.rewards for one in episodes],
            HEARD: [one.heard for one in episodes],
        }

    return play


def _log_errors(errors: Sequence[str | None], trainer: Any) -> None:
    """Log the errors of all processes' environments: "" for none, None where none was asked."""
    errors = gather_object(errors)
    metrics = trainer._metrics["train" if trainer.model.training else "eval"]
    metrics["barl/environment_errors"].append(sum(map(bool, errors)) / len(errors))
    faults = [*filter(None, errors)]
    if faults and "" not in errors and trainer.state.global_step == 0:
        raise RuntimeError(f"environments must play, but all of a batch failed: {faults[0]}.")
    for error in faults:
        trainer._say_once(error[:60], f"{error}: its rollout ends there (barl/environment_errors).")


class _Episode:
    """One rollout: an environment, and the tokens of its turns and observations."""

    def __init__(self, environment: Any, prompt: Completion, row: dict[str, Any], trainer: Any):
        self.environment, self.prompt, self._trainer = environment, prompt, trainer
        self.context: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] = []
        self.rewards: list[float | None] = []
        self.heard: list[str] = []
        self.is_over, self.error = False, ""
        self._name = type(environment).__name__
        takes = signature(environment.reset).parameters
        takes_all = any(one.kind is one.VAR_KEYWORD for one in takes.values())
        taken = {name: row[name] for name in row if takes_all or name in takes}
        told = self._asked(lambda: environment.reset(**taken))
        if isawaitable(told):
            raise ValueError(f"{self._name}.reset must not be async.")
        text = self._text(told[0] if isinstance(told, tuple) else told)
        if isinstance(prompt, str):
            self.prompt = prompt + text
        elif text:
            content = "\n\n".join(filter(None, [prompt[-1]["content"], text]))
            self.prompt = [*prompt[:-1], {**prompt[-1], "content": content}]

    def take_turn(self, said: list[int], logprobs: list[float] | None, is_last: bool) -> None:
        """Take what the model said, and what the environment replies."""
        trainer = self._trainer
        most, ends = trainer.max_completion_length or sys.maxsize, trainer.turn_end_ids
        # the model may go on behind padding, which ends a turn
        said = said[: next((k for k, token in enumerate(said, 1) if token in ends), None)]
        self._append(said[: most - len(self.mask)], 1, logprobs)
        if self.error or self.context[-1] not in ends:  # it is cut off
            self.is_over = True
            return
        text = trainer._tokenizer.decode(said, skip_special_tokens=True)
        text = text.rpartition(THOUGHT_END)[2].partition(THOUGHT_START)[0]
        reply = self._asked(lambda: self.environment.step(text))
        observation, reward, is_over = (None, None, True) if self.error else self._read(reply)
        self.rewards.append(reward)
        if is_over or is_last:
            self.is_over = True
            return
        heard = self._text(observation)
        self.heard.append(heard)
        behind = f"\n{heard}\n" if isinstance(self.prompt, str) else written_behind(trainer, heard)
        ids = trainer._tokenizer.encode(behind, add_special_tokens=False)
        ids = ids[ids[0] in ends :]  # what ends the turn in the template is there already
        most = min(most - len(self.mask), _longest_context(trainer) - len(self.context))
        self._append(ids[: max(most, 0)], 0, [0.0] * len(ids))
        self.is_over = len(ids) >= most

    def _append(self, ids: Sequence[int], own: int, logprobs: Sequence[float] | None) -> None:
        self.context += ids
        self.mask += [own] * len(ids)
        self.logprobs += (logprobs or [])[: len(ids)]

    def _text(self, told: Any) -> str:
        return "" if told is None else heard(self._trainer, told, self._name)

    def _asked(self, call: Callable[[], Any]) -> Any:
        """Return what the environment says; where it raises, the episode ends behind this turn."""
        try:
            return guarded(call)()
        except Exception as error:
            self.error = f"{self._name} raised {error!r:.300}"

    def _read(self, reply: Any) -> tuple[Any, float | None, bool]:
        with suppress(TypeError, ValueError):
            observation, reward, *ends = reply
            ends = ends[:-1] or ends  # gymnasium's last value is `info`
            if 1 <= len(ends) <= 2 and all(one in (True, False) for one in ends):
                return observation, None if reward is None else float(reward + 0.0), any(ends)
        rule = f"{self._name}.step must return (text, reward, is_over)"
        raise ValueError(f"{rule}, got {reply!r:.80}.")


def _longest_context(trainer: Any) -> int:
    """Return the most tokens that the model, or vLLM, reads."""
    if trainer.use_vllm and trainer.vllm_mode == "colocate":
        return trainer.vllm_generation.llm.llm_engine.model_config.max_model_len
    return getattr(trainer.model.config, "max_position_embeddings", None) or sys.maxsize
