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

"$build/dsv4d" --model "$source/etc/tiny" --listen 127.0.0.1:"${DEMO_PORT:-0}" --control "$DSV4D_SOCKET" --state "$dir/state" \
	>"$dir/log" 2>&1 &
daemon=$!
finish() { [ "$stop" = 1 ] || [ "${failed:-1}" = 1 ] && kill "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null || true; }
trap 'failed=1; finish; cat "$dir/log" >&2' EXIT
ctl wait ready --timeout 60
url=http://$(ctl --json status | sed -n 's/.*"http": *"\([^"]*\)".*/\1/p')

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

show "curl -N ... stream, while dsv4ctl changes the numerics under it"
body "What is my project name?" enabled ',"stream":true,"stream_options":{"include_usage":true}' |
	curl -sSN "$url/v1/chat/completions" -H 'content-type: application/json' -d @- >"$dir/stream" &
stream=$!
ctl param set mhc_precision=bf16 index_topk=16
wait "$stream"
grep -o '"\(reasoning_content\|content\)": *"[^"]*"' "$dir/stream" | sed 's/^"[a-z_]*": *"//; s/"$//' | tr -d '\n'; echo
grep -q 'data: \[DONE\]' "$dir/stream"

show "the same question, computed with bf16 hyper-connections"
answer=$(ask "What is my project name?" disabled | content)
echo "$answer"
case $answer in *mercury*) ;; *) echo "the model forgot" >&2; exit 1 ;; esac

for verb in "kernels list" "param list" "request list" "probe run recall continuation"; do
	show "dsv4ctl $verb"
	# shellcheck disable=SC2086
	ctl $verb
done
ctl param set mhc_precision=fp32 index_topk=32 >/dev/null

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
  $build/dsv4ctl request list
  $build/dsv4ctl probe run needle --sizes=300,900
  $build/dsv4ctl stop
END
