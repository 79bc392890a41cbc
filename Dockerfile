# Headrace with its compiled simulators, for CPUs and, with PyTorch's usual build, for CUDA GPUs.
#
#   docker build -t headrace .
#   docker build -t headrace --build-arg TORCH_INDEX=… .   # index of PyTorch's builds for CPUs: gigabytes smaller
#   docker run --rm -v ./runs:/work/runs headrace train CartPole-v1
#   docker run --rm -v ./runs:/work/runs --gpus all headrace train Pong-v5 --device cuda
#   docker run --rm -v ./runs:/work/runs -p 7420:7420 headrace watch --host 0.0.0.0 --no-browser
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ zlib1g-dev
COPY . /src
WORKDIR /src
ENV PIP_CONSTRAINT=/src/constraints.txt PIP_BUILD_CONSTRAINT=/src/constraints.txt PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/headrace
ENV PATH=/opt/headrace/bin:$PATH
ARG TORCH_INDEX=
RUN pip install ${TORCH_INDEX:+--extra-index-url $TORCH_INDEX} torch
RUN pip install '.[train,plots,atari,mujoco,box2d,export,zoo]' ./zoo native/atari native/box2d native/learner native/mujoco

FROM python:${PYTHON}-slim
# EGL draws MuJoCo's robots without a display
RUN apt-get update && apt-get install -y --no-install-recommends libegl1 libgl1 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/headrace /opt/headrace
ENV PATH=/opt/headrace/bin:$PATH
WORKDIR /work
ENTRYPOINT ["headrace"]
