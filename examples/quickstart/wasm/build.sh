#!/bin/sh
# Builds airports.wasm with clang and wasm-ld (Debian: clang, lld).
set -eu
cd "$(dirname "$0")"
clang --target=wasm32 -nostdlib -ffreestanding -O2 -mbulk-memory -Wall -Wextra -I../../../sdk/c \
  -Wl,--no-entry -Wl,-z,stack-size=16384 -Wl,--strip-debug -o airports.wasm airports.c
