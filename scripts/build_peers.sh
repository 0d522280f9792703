#!/usr/bin/env bash
# Builds lode-peers, which runs the same work through Lode, RocksDB, LMDB, redb, fjall and SQLite, and copies it to the
# folders of the lode binaries, where `lode bench kv --peers`, `lode bench tpcc --peers` and `lode bench oltp --peers` find it.
# RocksDB takes a quarter of an hour; with PEERS="--no-default-features" it is left out, and so is `lode bench kv --peers`.
# DataFusion takes as long again unless the target folder holds a release build of Lode.
#
#   scripts/build_peers.sh [DIRECTORY]    DIRECTORY: where the lode binary is; without it target/release and target/debug
#
# Needs a C++ compiler and libclang, for RocksDB's bindings: of the system (Debian: libclang-dev), or Python's package of
# that name, which is installed below target/ if there is neither.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}"
if [ -z "${LIBCLANG_PATH:-}" ] && ! ldconfig -p | grep -q 'libclang[-.0-9]*\.so' \
    && ! ls /usr/lib/llvm-*/lib/libclang.so* >/dev/null 2>&1; then
    native="$target/libclang/clang/native"
    [ -e "$native/libclang.so" ] || python3 -m pip install --quiet --target "$target/libclang" libclang
    LIBCLANG_PATH="$(realpath "$native")"
    export LIBCLANG_PATH
    # That package has no headers.
    export BINDGEN_EXTRA_CLANG_ARGS="-I$(gcc -print-file-name=include)"
fi
# shellcheck disable=SC2086  # PEERS holds words.
CARGO_TARGET_DIR="$target" cargo build --release --locked --manifest-path peers/Cargo.toml ${PEERS:-}
for dir in "${@:-$target/release $target/debug}"; do
    for d in $dir; do
        [ -d "$d" ] && { [ "$d" -ef "$target/release" ] || cp "$target/release/lode-peers" "$d/"; } && echo "$d/lode-peers"
    done
done
