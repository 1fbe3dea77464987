"""The table of `barl plan`: its figures by hand."""

from barl_trl.synthetic.search import TINY_MODEL_DIR

from ..paths import ROOT
from ..plausibility.models import EXPERTS, make
from .qwen import GROUP, PARAMETERS, SHALLOW, ZERO2, rows


def test_the_papers_shape_on_eight_gpus(plan):
    shown = rows(plan("--accelerate_config", ZERO2))
    assert shown["rollout batch"] == "1,024 prompts x 5 rollouts = 5,120"
    assert shown["on each process"] == "640 rollouts = 80 micro-batches of 8"
    assert shown["groups"] == "on one process each"
    assert shown["optimizer steps on it"] == "40"
    assert shown["rollouts of each step"] == "8 processes x 2 micro-batches x 8 = 128"
    assert shown["tokens generated, at most"] == f"{5120 * 1024:,}"
    assert shown["tokens scored, at most"] == f"{1024 * GROUP:,} = 1,938 per rollout"
    assert shown["the run"] == "4,400 optimizer steps on 110 rollout batches"


def test_settings_of_trl(plan, tmp_path):
    """Groups straddle two processes, and optimizer steps two rollout batches."""
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"model_name_or_path: owner/x\ndataset_name: y\noutput_dir: {tmp_path}\n")
    settings = {"num_generations": 4, "per_device_train_batch_size": 6, "steps_per_generation": 3}
    settings |= {"gradient_accumulation_steps": 2, "num_processes": 2, "max_steps": 30}
    options = [word for n, value in settings.items() for word in (f"--{n}", str(value))]
    shown = rows(plan(*options, recipe=str(recipe)))
    # 18 rows on each process: the fifth group of 4 is halved
    assert shown["rollout batch"] == "9 prompts x 4 rollouts = 36"
    assert shown["groups"] == "1 of 9 straddle processes"
    assert shown["optimizer steps on it"] == "1.5"
    assert shown["for whole steps"] == "gradient_accumulation_steps = 1 or 3"
    assert shown["the run"] == "30 optimizer steps on 20 rollout batches"


def test_memory_by_hand(plan):
    shown = rows(plan("--accelerate_config", ZERO2, layers=28))
    assert shown["trained"] == "1,544 of 1,544 million parameters"
    # bfloat16; gradients, and in 32 bits a copy and Adam's two moments, on 8 devices
    parts = [2 * PARAMETERS, 2 * PARAMETERS / 8, 12 * PARAMETERS / 8]
    # 65536 tokens in an MLP, in bfloat16: four of the model's width, three of the MLP's
    parts.append(65536 * 2 * (4 * 1536 + 3 * 8960))
    names = ["parameters", "gradients", "optimizer states", "scoring 65,536 tokens"]
    assert [shown[name] for name in names] == [f"{part / 2**30:.1f} GiB" for part in parts]
    # of each layer its input, in bfloat16; behind the last one a tile of logits, and gradients in
    # 32 bits of the head and of the hidden states; or of one layer all, and gradients of it
    tokens = 8 * 1536
    inputs = tokens * 28 * 2 * 1536
    head = inputs + 2 * 4096 * 32768 + 4 * 1536 * (151936 + 8 * 1024)
    layer = tokens * 2 * (4 * 8960 + 10 * 1536)
    number = float(shown["activations, 8 rollouts"].split()[0]) * 2**30
    assert max(head, inputs + layer) < number < inputs + 2 * layer
    assert parts[1] + number < parts[3]  # gradients are there in the update alone
    peak = parts[0] + parts[2] + parts[3]
    assert shown["at the peak"] == f"{peak / 2**30:.1f} GiB, in the scoring"
    assert shown["vLLM"] == "30% of the device"


def test_other_ways_to_train(plan, tmp_path):
    fsdp = tmp_path / "fsdp.yaml"
    text = (ROOT / "accelerate_configs" / "ddp.yaml").read_text()
    fsdp.write_text(
        text.replace("MULTI_GPU", "FSDP") + "fsdp_config: {fsdp_version: 2}\n", encoding="utf-8"
    )
    shown = rows(plan("--accelerate_config", str(fsdp)))
    assert shown["memory of a device"] == "estimates, FSDP"
    assert shown["optimizer states"] == f"{8 * SHALLOW / 8 / 2**30:.1f} GiB"  # in 32 bits

    shown = rows(plan("--accelerate_config", str(ROOT / "accelerate_configs" / "zero3.yaml")))
    names = ["parameters", "gradients", "optimizer states"]
    parts = [size * SHALLOW / 8 / 2**30 for size in (2, 2, 12)]
    assert [shown[name] for name in names] == [f"{part:.1f} GiB" for part in parts]

    shown = rows(plan("--num_processes", "8", "--use_peft", "--beta", "0.1"))
    assert "keys and values, 640 rollouts" not in shown  # they are vLLM's
    adapters = 2 * 16 * (2 * 1536 + 1536 + 256)  # rank 16, of q and v
    assert (
        shown["trained"]
        == f"{adapters / 1e6:,.0f} of {(SHALLOW + adapters) / 1e6:,.0f} million parameters"
    )
    assert "reference model" not in shown  # the adapter is switched off
    # an adapter is in 32 bits, and so are Adam's moments of it
    parts = [2 * SHALLOW + 4 * adapters, 8 * adapters, 4 * adapters]
    names = ["parameters", "optimizer states", "DDP's buckets of gradients"]
    assert [shown[name] for name in names] == [f"{part / 2**30:.1f} GiB" for part in parts]

    shown = rows(plan("--num_processes", "8"))
    assert shown["DDP's buckets of gradients"] == f"{2 * SHALLOW / 2**30:.1f} GiB"

    shown = rows(plan("--use_peft", "--load_in_4bit", "true", "--gradient_checkpointing", "false"))
    others = 151936 * 1536 + 2 * (2 * 1536 + 1536 + 2 * 256) + 1536  # embeddings, norms, biases
    quantized = SHALLOW - others
    assert shown["parameters"] == f"{(2 * (others + adapters) + quantized / 2) / 2**30:.1f} GiB"

    shown = rows(plan("--beta", "0.1", "--optim", "sgd", "--method", "grpo", "--dtype", "float32"))
    assert shown["reference model"] == shown["parameters"] == f"{4 * SHALLOW / 2**30:.1f} GiB"
    assert shown["optimizer states"] == "0.0 GiB"
    assert "tokens scored, at most" not in shown
    shown = rows(plan("--dtype", "auto"))  # this config.json says nothing of it
    assert shown["parameters"] == f"{4 * SHALLOW / 2**30:.1f} GiB"


def test_what_is_not_estimated_is_said(plan, tmp_path):
    moved = tmp_path / "moved.yaml"
    text = (ROOT / "accelerate_configs" / "zero2.yaml").read_text()
    moved.write_text(
        text.replace("offload_optimizer_device: none", "offload_optimizer_device: cpu")
    )
    shown = rows(plan("--accelerate_config", str(moved)))
    assert shown["unknown"] == "what offload_optimizer_device moves away"
    shown = rows(plan("--model_name_or_path", "nobody/nothing"))
    assert shown["memory"].startswith("unknown: config.json")
    assert shown["optimizer steps on it"] == "40"


def test_on_a_cpu_the_libraries_count_and_generation_does(plan, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"model_name_or_path: {TINY_MODEL_DIR}\ndataset_name: y\noutput_dir: x\n")
    shown = rows(plan("--use_cpu", "True", "--bf16", "False", recipe=str(recipe)))
    assert shown["Python and its libraries"] == "0.5 GiB"
    assert "keys and values, 8 rollouts" in shown
    peak = float(shown["at the peak"].split()[0])
    assert 0.5 < peak < 1.1


def test_a_model_that_asks_for_numbers_has_the_rest_of_the_plan(plan, tmp_path):
    make("mixtral", **EXPERTS).config.save_pretrained(tmp_path)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"model_name_or_path: {tmp_path}\ndataset_name: y\noutput_dir: x\n")
    shown = rows(plan("--dtype", "float32", "--bf16", "False", recipe=str(recipe)))
    assert shown["unknown"] == "activations, keys and values (RuntimeError)"
    assert "parameters" in shown and "activations, 8 rollouts" not in shown
