"""Pushes to the Hub.

`barl train` checks before it trains that it may push, and says why a push failed. Trainers write
more into the model card than TRL does.
"""

import logging
import shutil
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset
from huggingface_hub import ModelCard, auth_check, create_repo
from huggingface_hub.errors import HfHubHTTPError, HTTPError
from peft import PeftModel
from transformers import TrainingArguments
from trl import GRPOTrainer

from ..config import BARLConfig
from .model_card import add_sections, card_settings

logger = logging.getLogger(__name__)

# what the Hub's client raises: the Hub refuses, there is no network, offline mode is set, Xet
# fails, or names or metadata are wrong
_ERRORS = (HTTPError, OSError, ValueError)


class PushError(RuntimeError):
    """A push to the Hub failed; the message says why, and what to do."""


def claim_repository(args: TrainingArguments) -> None:
    """Create the repository that `args` push to, if needed, and check that it can be written.

    Raises:
        PushError: The Hub cannot be reached, or the token may not write to the repository.
    """
    name = args.hub_model_id or Path(str(args.output_dir)).absolute().name
    try:
        repository = create_repo(
            name, token=args.hub_token, private=args.hub_private_repo, exist_ok=True
        )
        # `create_repo` raises nothing for somebody else's repository that can be read
        auth_check(repository.repo_id, token=args.hub_token, write=True)
    except _ERRORS as error:
        raise PushError(
            f"hub_model_id must be a repository that can be pushed to, got {name!r}: "
            f"{_reason(error)}"
        ) from None


def push(trainer: GRPOTrainer, *, dataset_name: str | None) -> None:
    """Push a saved model to the Hub.

    Args:
        trainer: The trainer that trained and saved it.
        dataset_name: A Hub id or the path of the training data.

    Raises:
        PushError: The model was not pushed.
    """
    try:
        trainer.push_to_hub(dataset_name=_hub_dataset(dataset_name))
    except _ERRORS as error:
        folder, name = trainer.args.output_dir, trainer.hub_model_id
        raise PushError(
            f"the model is saved in {folder}, but was not pushed to {name}: {_reason(error)}\n"
            f"To push it later: hf upload {name} {folder} . --exclude 'checkpoint-*' --exclude '_*'"
        ) from None


def _hub_dataset(name: str | None) -> str | None:
    """Return the name of a data set if it can be a Hub id, else None.

    The Hub refuses a model card that names local data.
    """
    return name if name and name.count("/") == 1 and not Path(name).exists() else None


def _reason(error: BaseException) -> str:
    if not isinstance(error, HfHubHTTPError):
        return str(error)
    response = error.response
    reason = f"the Hub says {response.status_code} ({error.server_message or 'no reason'})."
    if response.status_code in (401, 403, 404):
        reason += " Log in with `hf auth login` or set HF_TOKEN, with a token that may write to it."
    return reason


def _warn_of_failure(name: str, folder: str, job: Future) -> None:
    if error := job.exception():
        reason = _reason(error)
        logger.warning("%s was not pushed to %s, training goes on: %s", folder, name, reason)


class HubMixin(GRPOTrainer):
    """Warn of a checkpoint that was not pushed, and extend the model card.

    What it relies on: TRL's `_save_checkpoint` writes the card before it pushes, and the attribute
    `push_in_progress.jobs` holds the futures of the uploads.
    """

    args: BARLConfig
    model: Any
    train_dataset: Dataset | IterableDataset
    hub_model_id: str
    eos_token_ids: list[int]
    benchmarks: dict[str, Dataset]
    push_in_progress: Any

    def create_model_card(  # noqa: D102 (TRL's)
        self,
        model_name: str | None = None,
        dataset_name: str | None = None,
        tags: str | list[str] | None = None,
    ):
        name = dataset_name or self.train_dataset.info.dataset_name
        super().create_model_card(model_name, _hub_dataset(name), tags)
        if not self.is_world_process_zero():
            return
        data: dict[str, Any] = {"data set": name or "given as rows"}
        for key, dataset in (
            ("rows", self.train_dataset),
            ("rows of evaluation", self.eval_dataset),
        ):
            if isinstance(dataset, Dataset):  # a stream may not know its length
                data[key] = len(dataset)
        for benchmark, problems in self.benchmarks.items():
            data[f"benchmark {benchmark}"] = f"{len(problems)} problems, greedy"
        model = self.model.config._name_or_path
        rewards = zip(self.reward_weights.tolist(), self.reward_func_names, strict=True)
        path = Path(str(self.args.output_dir), "README.md")
        card = ModelCard.load(path)
        card.text = add_sections(
            card.text,
            model=Path(model).name if Path(model).exists() else model,
            reward=" + ".join(f"{weight:g} {name}" for weight, name in rewards),
            # an adapter's base model may not know all tokens that end a completion
            settings=card_settings(self.args, is_barl=self._name == "BARL")
            | {"eos_token_id": [*self.eos_token_ids]},
            data=data,
            log_history=self.state.log_history,
            step=self.state.global_step,
        )
        card.save(path)

    def _save(self, output_dir=None, state_dict=None):
        super()._save(output_dir, state_dict)
        if isinstance(self.model, PeftModel):
            # PEFT has put an empty card into the folder
            output = Path(str(self.args.output_dir))
            self.create_model_card(Path(self.hub_model_id or output.absolute()).name)
            if self.is_world_process_zero() and not output.samefile(output_dir or output):
                shutil.copy(output / "README.md", str(output_dir))

    def _push_jobs(self) -> list[Future]:
        is_pushing = self.is_world_process_zero() and self.push_in_progress
        return [*self.push_in_progress.jobs] if is_pushing else []

    def _push_from_checkpoint(self, checkpoint_folder):
        earlier = self._push_jobs()
        super()._push_from_checkpoint(checkpoint_folder)
        for job in self._push_jobs():
            if job not in earlier:
                job.add_done_callback(
                    partial(_warn_of_failure, self.hub_model_id, checkpoint_folder)
                )
