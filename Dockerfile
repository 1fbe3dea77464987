# Training on NVIDIA GPUs: docker build -t barl-trl . && docker run --gpus all barl-trl recipes
# torch's wheel brings its CUDA libraries; the host needs a driver only. ZeRO with offload compiles an optimizer: start from
# an image of nvidia/cuda with "devel" in its name then.
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/barl-trl
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt '.[deepspeed]'
WORKDIR /work
ENTRYPOINT ["barl"]
CMD ["--help"]
