#!/usr/bin/env bash
# What RESULTS.md has for CPUs, on a GPU of 80 GB, in at most 25 minutes:
#
#   benchmarks/on_gpu.sh FOLDER [PART ...]
#
# Nothing is downloaded: the weights are random, of Qwen2.5-1.5B's shape. Each part writes
# FOLDER/PART.md (tables) and FOLDER/PART.json, the dearest last; a part that fails or takes
# longer than its limit leaves its error and its first rows there, and the others go on. With
# QUICK=--quick in the environment all of it runs small, in minutes on a CPU. Parts:
#
#   machine    what this is
#   memory     a scoring pass: estimate and peak
#   step       BARL : GRPO, one optimizer step for each rollout batch
#   steps      the same with two
#   scoring    this package beside its rivals, the paper's shape
set -uo pipefail
cd "$(dirname "$0")/.."
OUT=${1:?usage: benchmarks/on_gpu.sh FOLDER [PART ...]}
shift
PARTS=("$@")
[ ${#PARTS[@]} -gt 0 ] || PARTS=(machine memory step steps scoring)
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python)}
mkdir -p "$OUT"

machine() {
	"$PYTHON" - <<-'END'
	import platform
	from importlib.metadata import version
	import torch
	gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
	names = ("torch", "transformers", "trl", "peft", "accelerate")
	print(gpu, f"Python {platform.python_version()}", *(f"{n} {version(n)}" for n in names), sep=", ")
	END
}

run() { # PART SECONDS SCRIPT OPTIONS
	local part=$1 limit=$2
	shift 2
	echo "$part: $*"
	{
		echo "\`$*\` ($(date +%F))"
		echo
		timeout "$limit" "$PYTHON" "benchmarks/$1" "${@:2}" ${QUICK:-} --json "$OUT/$part.json" ||
			echo "failed: exit status $?"
	} >"$OUT/$part.md" 2>"$OUT/$part.log"
	! tail -n 1 "$OUT/$part.md" | grep -q "^failed" || tail -n 20 "$OUT/$part.log" >>"$OUT/$part.md"
}

for part in "${PARTS[@]}"; do
	case $part in
	machine) machine >"$OUT/machine.md" ;;
	memory) run memory 120 memory.py ;;
	step) run step 450 training_step.py --models demo,40m,1.5b --rounds 2 ;;
	steps) run steps 450 training_step.py --models demo,40m,1.5b --rounds 2 --steps 2 ;;
	scoring) run scoring 300 scoring.py --large ;;
	*) echo "PART must be machine, memory, step, steps or scoring, got $part." >&2 && exit 2 ;;
	esac
done
cat "$OUT"/*.md
