#!/bin/sh
# demo.sh [BUILD_DIR]: the main job on the embedded model. With BUILD_DIR the daemon is left running for the reader;
# without, as a test in `make check`, it is stopped at the end and must end cleanly.
set -eu
build=$(cd "${1:-$top_builddir}" && pwd)
[ $# -gt 0 ] && stop=0 || stop=1
source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/dsv4d-demo.XXXXXX")
DSV4D_SOCKET=$dir/control
export DSV4D_SOCKET
ctl() { "$build/dsv4ctl" "$@"; }
show() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

# Plugins are loaded from a directory that nobody else may write, whatever the umask was when they were built.
install -d -m 755 "$dir/plugins"
install -m 644 "$build"/plugins/*.so "$dir/plugins"
"$build/dsv4d" --model "$source/etc/tiny" --listen 127.0.0.1:"${DEMO_PORT:-0}" --control "$DSV4D_SOCKET" \
	--state "$dir/state" \
	--plugins "$dir/plugins" >"$dir/log" 2>&1 &
daemon=$!
finish() {
	[ "$stop" = 1 ] || [ "${failed:-1}" = 1 ] && kill "$daemon" 2>/dev/null
	wait "$daemon" 2>/dev/null || true
}
trap 'failed=1; finish; cat "$dir/log" >&2' EXIT
ctl wait ready --timeout 240
of_status() { ctl --json status | sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p'; }
url=http://$(of_status http)
before=$(of_status kernels) # the fastest that this machine can run

# chat CONTENT [EXTRA-JSON-FIELDS]: the answer of one request whose first turn told a fact.
body() {
	printf '{"messages":[{"role":"user","content":"Remember this: my project name is mercury."},'
	printf '{"role":"assistant","content":"Noted. The project name is mercury."},'
	printf '{"role":"user","content":"%s"}],"thinking":{"type":"%s"},"temperature":0%s}' "$1" "$2" "${3:-}"
}
ask() { body "$@" | curl -sS "$url/v1/chat/completions" -H 'content-type: application/json' -d @-; }
content() { sed -n 's/.*"content": *"\([^"]*\)".*/\1/p'; }

show "curl $url/v1/chat/completions   # a fact in the first turn, asked for in the third"
answer=$(ask "What is my project name?" disabled | content)
echo "$answer"
case $answer in *mercury*) ;; *) echo "the model forgot" >&2; exit 1 ;; esac

show "dsv4ctl plugin load mhc-bf16   # read, tried in a child process, checked against ref, warm"
ctl plugin load mhc-bf16

show "curl -N ... stream; meanwhile: dsv4ctl kernels use mhc=mhc-bf16"
body "What is my project name?" enabled ',"stream":true,"max_tokens":600,"ignore_eos":true' |
	curl -sSN "$url/v1/chat/completions" -H 'content-type: application/json' -d @- >"$dir/stream" &
stream=$!
until grep -q 'content":"[^"]' "$dir/stream" 2>/dev/null; do kill -0 "$stream"; done
ctl kernels use mhc=mhc-bf16
ctl request list --max 1 >"$dir/running"
wait "$stream"
grep -q ' running ' "$dir/running" || { echo "the stream was over before the swap" >&2; exit 1; }
grep -q 'data: \[DONE\]' "$dir/stream"
printf '%s chunks and [DONE]: ' "$(grep -c '^data: {' "$dir/stream")"
sed -n 's/.*"\(reasoning_content\|content\)":"\([^"]*\)".*/\2/p' "$dir/stream" | head -n 16 | tr -d '\n'; echo ...

show "the same question again: a request keeps the kernels it began with, the next one has the new ones"
answer=$(ask "What is my project name?" disabled | content)
echo "$answer"
case $answer in *mercury*) ;; *) echo "the model forgot" >&2; exit 1 ;; esac
ctl request list --max 2 | tee "$dir/list"
sed -n 2p "$dir/list" | grep -q 'mhc=mhc-bf16$' && sed -n 3p "$dir/list" | grep -q " $before\$"

for verb in "kernels list" "plugin list" "probe run recall continuation" "kernels rollback"; do
	show "dsv4ctl $verb"
	# shellcheck disable=SC2086
	ctl $verb
done
[ "$(of_status kernels)" = "$before" ]

failed=0
if [ "$stop" = 1 ]; then
	ctl stop >/dev/null
	wait "$daemon"
	trap - EXIT
	rm -rf "$dir"
	exit 0
fi
trap - EXIT
cat <<END

dsv4d is running at $url (process $daemon, log $dir/log). Try next:
  export DSV4D_SOCKET=$DSV4D_SOCKET
  $build/dsv4ctl kernels use attention.decode=attn-splitk indexer=indexer-fp8
  $build/dsv4ctl probe run needle --sizes=300,900
  $build/dsv4ctl stop
END
