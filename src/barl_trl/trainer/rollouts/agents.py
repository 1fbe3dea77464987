"""Rollouts of several turns: which tokens and messages are the model's, and the answers of agents.

TRL runs the loop of tools and environments, or a `rollout_func` does. What they return is read
here.
"""

import copy
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import compress, takewhile
from statistics import fmean
from typing import Any, NamedTuple

from accelerate.utils import gather_object
from trl import GRPOTrainer

from ...hypotheses import plain_text
from ...rewards import Completion, GivenAnswer, calls_tool
from ...steps import Turn, might_go_on, turns_of

ROLLOUT_ANSWER = "rollout_answer"
"""Column in which reward functions get the answers that agents gave, [`GivenAnswer`]s."""


class Episode(NamedTuple):
    """What an agent did with one problem."""

    prompt: Completion
    """The text or messages with which it began, with what the environment's `reset` told."""
    completion: Completion
    """The messages of all turns, or the text if there are no tools."""
    text: str
    """What the model wrote in all turns, with line breaks for what others wrote."""
    token_ids: list[int]
    """Token ids of the completion, with what others wrote."""
    own_tokens: list[int]
    """1 for each token of the completion that the model wrote, 0 for the others."""
    num_tokens: int
    """Number of tokens that the model wrote, without the one that ends its last turn."""
    is_cut_off: bool
    """Whether it ended within a turn, or with a call and without an answer."""
    given_answer: GivenAnswer | None
    """The answer that its environment or the `rollout_func` tells; None: the completion has it."""


class _PlayedError(Exception):
    """Ends TRL's method once the episodes of a batch are played."""


class AgentMixin(GRPOTrainer):
    """Read the rollouts of tools, of environments and of a `rollout_func`.

    An environment says which answer an agent gave with its attribute or property `answer`, a
    `rollout_func` with its field `answer`; None is no answer. Reward functions get these answers in
    the column `rollout_answer`.

    It logs, if some tokens may not be the model's, `barl/turns_per_rollout`; and with tools the
    shares of rollouts that end in a call, `barl/ended_in_call`, because they were
    `barl/at_turn_limit` or there was `barl/no_room_for_result`, and that end in a text that looks
    like a call but is none, `barl/malformed_calls`.

    What it relies on in TRL: `_generate` returns the token ids of prompts and completions, the mask
    of the tokens that the model wrote (None: all), the completions, the log-probabilities, the
    columns that a `rollout_func` adds, and two lists of images; `environments` has the environment
    of each rollout of the batch; `tools` are those of all rollouts; its loop calls tools
    `max_tool_calling_iterations` times, and leaves a result out that does not fit into the
    completion.
    """

    model: Any
    _tokenizer: Any
    eos_token_ids: list[int]
    environments: list[Any] | None
    rollout_func: Any
    tools: list[Any]
    max_tool_calling_iterations: int
    _played: list[Episode] | None = None
    _only_plays = False

    def play(self, rows: Sequence[dict[str, Any]]) -> list[Episode]:
        """Play an episode with each of some rows of a data set, by TRL's own loop.

        Nothing is rewarded or logged. All processes must call this together where TRL generates on
        all of them together.

        Args:
            rows: The rows, with the columns that environments take.
        """
        was_training, number = self.model.training, self.num_generations_eval
        metrics = copy.deepcopy(self._metrics["eval"])
        self.model.eval()
        self._only_plays, self.num_generations_eval = True, 1
        try:
            self._generate_and_score_completions([dict(row) for row in rows])
        except _PlayedError:
            pass
        finally:
            self._only_plays, self.num_generations_eval = False, number
            self._metrics["eval"] = metrics
            self.model.train(was_training)
        episodes, self._played = self._played or [], None
        return episodes

    @property
    def _turn_end_ids(self) -> list[int]:
        """Ids of the tokens that end a turn, and of the padding."""
        return [*self.eos_token_ids, self._tokenizer.pad_token_id]

    @cached_property
    def _call_opening(self) -> str | None:
        return call_opening(self._tokenizer, self.chat_template)

    def _generate(self, prompts):
        output = super()._generate(prompts)
        prompt_ids, completion_ids, masks, completions, logprobs, columns, *images = output
        tool_images: Any = images[-1]
        if any(map(any, tool_images)):
            raise ValueError(
                "tools must return texts, got an image: BARLTrainer is text-only. Return a "
                "description, or train with trl.GRPOTrainer."
            )
        given = self._given_answers(columns)
        columns = columns if given is None else columns | {ROLLOUT_ANSWER: given}
        own_masks = masks or [[1] * len(ids) for ids in completion_ids]
        turns = []
        if masks or self.rollout_func is not None:  # else TRL has cut completions behind their end
            turns = [
                turns_of(ids, mask, self.eos_token_ids, runs_are_turns=bool(self.tools))
                for ids, mask in zip(completion_ids, own_masks, strict=True)
            ]
            _refuse_unmasked(completion_ids, own_masks, turns, self._turn_end_ids)
        if masks and not self.tools:  # TRL's completions hold the text of others, too
            completions = [
                _own_completion(*rollout, self._tokenizer)
                for rollout in zip(completions, completion_ids, masks, turns, strict=True)
            ]
        if masks:
            self._log_turns(completion_ids, completions, turns)
        if self._only_plays:
            told = given or [None] * len(completions)
            self._played = [
                self._episode(*rollout)
                for rollout in zip(
                    prompts, completions, completion_ids, own_masks, told, strict=True
                )
            ]
            raise _PlayedError
        return prompt_ids, completion_ids, masks, completions, logprobs, columns, *images

    def _episode(
        self,
        prompt: Completion,
        completion: Completion,
        ids: list[int],
        mask: list[int],
        given: GivenAnswer | None,
    ) -> Episode:
        turns = turns_of(ids, mask, self._turn_end_ids, runs_are_turns=bool(self.tools))
        own_mask = mask[: turns[-1].end] if turns else []
        is_unanswered = given is None or given.answer is None
        return Episode(
            prompt,
            completion,
            _own_text(ids[: len(own_mask)], own_mask, self._tokenizer),
            ids,
            mask,
            sum(own_mask),
            might_go_on(ids, turns, self._turn_end_ids)
            or (is_unanswered and calls_tool(completion)),
            given,
        )

    def _given_answers(self, columns: dict[str, Any]) -> list[GivenAnswer | None] | None:
        """Return the answers that environments or a `rollout_func` tell; None if they tell none."""
        if self.environments:
            told = [hasattr(environment, "answer") for environment in self.environments]
            if not any(told):
                return None
            return [
                _given(environment.answer) if tells else None
                for environment, tells in zip(self.environments, told, strict=True)
            ]
        return [*map(_given, columns["answer"])] if "answer" in columns else None

    def _log_turns(self, completion_ids, completions, turns) -> None:
        shares: dict[str, list[float]] = {"turns_per_rollout": [*map(len, turns)]}
        if self.tools:
            calls = shares["ended_in_call"] = [*map(calls_tool, completions)]
            at_limit = [len(spans) > self.max_tool_calling_iterations for spans in turns]
            shares["at_turn_limit"] = [
                is_call and is_last for is_call, is_last in zip(calls, at_limit, strict=True)
            ]
            shares["no_room_for_result"] = [
                (is_call and not is_last) or (bool(spans) and spans[-1].has_observation)
                for is_call, is_last, spans in zip(calls, at_limit, turns, strict=True)
            ]
            shares["malformed_calls"] = [
                not calls_tool(completion)
                and bool(self._call_opening)
                and bool(spans)
                and not spans[-1].has_observation
                and self._call_opening in self._tokenizer.decode(ids[spans[-1].start :])
                for completion, ids, spans in zip(completions, completion_ids, turns, strict=True)
            ]
        metrics = self._metrics["train" if self.model.training else "eval"]
        for name, values in shares.items():
            metrics[f"barl/{name}"].append(fmean(gather_object(values)))


def _refuse_unmasked(
    completion_ids: Sequence[Sequence[int]],
    masks: Sequence[Sequence[int]],
    turns: Sequence[Sequence[Turn]],
    end_ids: Collection[int],
) -> None:
    """Refuse completions in which tokens of the model follow the end of its turn at once.

    Raises:
        ValueError: A `rollout_func` returned such a completion.
    """
    for n, (ids, mask, spans) in enumerate(zip(completion_ids, masks, turns, strict=True)):
        for _, end, stop, _ in spans:
            behind = compress(ids[end:stop], mask[end:stop])
            if any(token not in end_ids for token in behind):
                raise ValueError(
                    f"rollout_func must mark in env_mask what the model did not write, got rollout "
                    f"{n} with an end of turn at token {end} of {len(ids)} and tokens of the model "
                    "behind it. Give 1 for each token that the model wrote in its turns, up to the "
                    "one that ends the turn, and 0 for all others, such as a user's message."
                )


def _own_completion(
    completion: Completion,
    ids: Sequence[int],
    mask: Sequence[int],
    turns: Sequence[Turn],
    tokenizer: Any,
) -> Completion:
    """Return a completion in which the text of the model stands apart from that of others.

    A text becomes that of the last turn, "" if another's text follows it. Messages become one
    message for each turn, with the role "tool" for what stands behind it. In a turn, line breaks
    stand for the tokens that others put into it.

    Args:
        completion: TRL's completion of a `rollout_func`: a text, or messages.
        ids: Token ids of the completion.
        mask: 1 for each token that the model wrote, 0 for the others.
        turns: The turns of the completion.
        tokenizer: The model's tokenizer.
    """
    if 0 not in mask:
        return completion
    messages = []
    for start, end, stop, has_observation in turns:
        text = _own_text(ids[start:end], mask[start:end], tokenizer)
        messages.append({"role": "assistant", "content": text})
        if has_observation:
            others = [
                token for token, own in zip(ids[end:stop], mask[end:stop], strict=True) if not own
            ]
            text = tokenizer.decode(others, skip_special_tokens=True)
            messages.append({"role": "tool", "content": text.strip()})
    if not isinstance(completion, str):
        return messages
    is_last_own = messages and messages[-1]["role"] == "assistant"
    return messages[-1]["content"] if is_last_own else ""


def call_opening(tokenizer: Any, chat_template: str | None) -> str | None:
    """Return the word with which the chat template begins a call of a tool; None if none does.

    Args:
        tokenizer: The model's tokenizer.
        chat_template: The chat template; None is the tokenizer's own.
    """
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    call = {"type": "function", "function": {"name": "made-up", "arguments": {}}}
    user = {"role": "user", "content": "?"}
    try:
        plain, calling = (
            tokenizer.apply_chat_template([user, last], tokenize=False, chat_template=chat_template)
            for last in (message, message | {"tool_calls": [call]})
        )
    except Exception:  # whatever a template makes of a call that it was not written for
        return None
    pairs = zip(plain, calling, strict=False)
    same = "".join(char for char, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    before = calling.partition("made-up")[0]
    words = before[len(same.rstrip("<|")) :].split()  # both may go on with a special token
    return words[0] if words else None


def _given(answer: Any) -> GivenAnswer:
    return GivenAnswer(None if answer is None else plain_text(answer))


def _own_text(ids: Sequence[int], mask: Sequence[int], tokenizer: Any) -> str:
    """Return the text of the tokens that the model wrote, with line breaks for other tokens."""
    runs: list[list[int]] = [[]]
    for token, is_own in zip(ids, mask, strict=True):
        if is_own:
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    return "\n".join(tokenizer.batch_decode([run for run in runs if run], skip_special_tokens=True))
