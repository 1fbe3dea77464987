# Training on NVIDIA GPUs (docs/launching.md, "In a container").
# The wheels of torch and vLLM bring their CUDA libraries; the host needs a driver only. ZeRO with offload compiles an
# optimizer: start from an image of nvidia/cuda with "devel" in its name then.
FROM python:3.11-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/barl-trl
COPY pyproject.toml README.md LICENSE constraints-vllm.txt ./
COPY src src
RUN pip install --no-cache-dir -c constraints-vllm.txt '.[vllm,deepspeed]'
WORKDIR /work
ENTRYPOINT ["barl"]
CMD ["--help"]
