#!/usr/bin/env bash
# What RESULTS.md has for CPUs, on a GPU of 80 GB, in one call of at most 480 seconds:
#
#   benchmarks/on_gpu.sh FOLDER [PART[:SECONDS] ...]
#
# It needs this checkout and the packages, and no network: it installs the wheels that lie in
# `wheels/` of the checkout. `gpu.py` makes the weights, and has the parts. The most important one is first. Each has a process and a deadline of its own, inside and
# outside, and none starts that cannot begin before the end. FOLDER/results.jsonl has a line for
# each measurement, on disk as soon as it is made, and one that says where a part stood when its
# time was over. FOLDER/PART.log has what else it said. `prepare` computes what needs no GPU: run
# `benchmarks/on_gpu.sh FOLDER prepare` beforehand. TINY=1 runs all parts small, on a CPU.
set -uo pipefail
OUT=$(mkdir -p "${1:?usage: benchmarks/on_gpu.sh FOLDER [PART[:SECONDS] ...]}" && cd "$1" && pwd)
shift
cd "$(dirname "$0")/.." || exit
PARTS=("$@")
[ ${#PARTS[@]} -gt 0 ] ||
	PARTS=(machine:30 step:170 scoring:75 decode:50 static:60 paged:50 bfloat16:40)
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
END=${END:-480}
SECONDS=0
[ ! -d wheels ] || "$PYTHON" -m pip install -q --no-index --no-deps wheels/*.whl
export PYTHONPATH=$PWD/src${PYTHONPATH:+:$PYTHONPATH} HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}

for part in "${PARTS[@]}"; do
	name=${part%%:*} limit=${part#*:}
	[ "$limit" != "$part" ] || limit=60
	left=$((END - SECONDS - 7))
	if [ $left -lt 15 ]; then
		echo "{\"part\": \"$name\", \"skipped\": \"no time is left\"}" >>"$OUT/results.jsonl"
		continue
	fi
	[ "$limit" -le $left ] || limit=$left
	began=$SECONDS status=0
	timeout --signal=INT --kill-after=4 $((limit + 3)) "$PYTHON" benchmarks/gpu.py "$name" \
		--out "$OUT/results.jsonl" --seconds "$limit" >/dev/null 2>"$OUT/$name.log" || status=$?
	ended="\"exit\": $status, \"took_s\": $((SECONDS - began))"
	# also of a part that ended before it could say where it stood
	[ $status -eq 0 ] || ended+=", \"log\": \"$(tail -n 1 "$OUT/$name.log" | tr -d '\\"\t')\""
	echo "{\"part\": \"$name\", $ended}" >>"$OUT/results.jsonl"
done
cat "$OUT/results.jsonl"
