#!/bin/sh
# Builds guest.wasm, which is committed so that the tests need no clang.
set -eu
cd "$(dirname "$0")"
clang --target=wasm32 -nostdlib -ffreestanding -O2 -mbulk-memory -Wall -Wextra -I../../../../sdk/c \
  -Wl,--no-entry -Wl,-z,stack-size=16384 -o guest.wasm guest.c
