"""A demo app for a CPU: train a tiny agent, and see what each of its turns weighs."""

import base64
import tempfile
from pathlib import Path

import gradio as gr  # pyright: ignore[reportMissingImports]
from datasets import Dataset
from transformers import TrainerCallback

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.inspector.site import write_page
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, NumberGame, found_secret, number_rows

CREDITS = ["bayes", "grpo", "rloo", "progress", "belief_critic", "information_gain"]
TEXT = """
# What is each turn of an agent worth?

A model of 0.2 M parameters looks for a number from 1 to 16. It may ask four times "is it at least
x?", and then answers. GRPO gives all turns of a game the same number. A *credit* gives each turn
its own. Train it for a few steps, and click a game to see what was left after each reply, and the
weight of each turn. A step takes some seconds.
"""


class Show(TrainerCallback):
    """Shows the steps in the app."""

    def __init__(self, progress: gr.Progress):
        self.progress = progress

    def on_step_end(self, args, state, control, **kwargs):
        self.progress((state.global_step, state.max_steps), desc="training")


def train(credit: str, steps: int, seed: int, progress=gr.Progress()) -> tuple[list, str]:  # noqa: B008
    """Return rows of what was logged, and the page of the rollouts in a frame."""
    with tempfile.TemporaryDirectory() as folder:
        args = BARLConfig(
            f"{folder}/run",
            credit=credit,
            belief="task",  # NumberGame says which numbers a reply rules out
            hypotheses_column="candidates",
            max_steps=steps,
            per_device_train_batch_size=64,  # 8 games with 8 rollouts
            max_completion_length=64,
            max_tool_calling_iterations=4,  # four questions
            learning_rate=1e-3,
            logging_steps=1,
            log_beliefs=True,
            save_strategy="no",
            disable_tqdm=True,
            seed=seed,
            use_cpu=True,
            bf16=False,
        )
        trainer = BARLTrainer(
            str(NUMBER_MODEL_DIR),
            found_secret,
            args,
            Dataset.from_list(number_rows(steps * 8, seed=seed)),
            environment_factory=NumberGame,
            callbacks=[Show(progress)],
        )
        trainer.train()
        names = ("step", "reward", "questions", "barl/entropy_after")
        logs = [log for log in trainer.state.log_history if "reward" in log]
        rows = [[round(log[name], 2) for name in names] for log in logs]
        write_page([Path(folder, "run", "beliefs")], [credit], Path(folder, "page"))
        page = base64.b64encode(Path(folder, "page", "index.html").read_bytes()).decode()
    source = f"data:text/html;base64,{page}"  # in srcdoc the page's own links would lead to the app
    return rows, f'<iframe src="{source}" style="width: 100%; height: 80vh; border: 0"></iframe>'


with gr.Blocks(title="barl-trl") as app:
    gr.Markdown(TEXT)
    with gr.Row():
        credit = gr.Dropdown(CREDITS, value="bayes", label="credit")
        steps = gr.Slider(1, 30, value=5, step=1, label="steps of 64 games")
        seed = gr.Number(0, precision=0, label="seed")
    button = gr.Button("Train", variant="primary")
    headers = ["step", "secrets found", "questions", "entropy at the answer, nats"]
    table = gr.Dataframe(headers=headers, label="log")
    frame = gr.HTML()
    button.click(train, [credit, steps, seed], [table, frame])

if __name__ == "__main__":
    app.launch()
