#!/bin/sh
# variant.sh [PLUGIN [BUILD_DIR]]: how far a plugin is from ref on the embedded model: every op it replaces on the same
# inputs, every layer, the logits, and both answers. By hand; the default is mhc-bf16, whose hyper-connections should
# differ from ref by about 3e-3 in each mix, at a cosine above 0.999.
set -eu
plugin=${1:-mhc-bf16}
build=$(cd "${2:-${top_builddir:-build}}" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
DSV4D_SOCKET=$dir/control
export DSV4D_SOCKET
daemon=
finish() {
	[ -z "$daemon" ] || { kill "$daemon" 2>/dev/null; wait "$daemon" || cat "$dir/log" >&2; }
	rm -rf "$dir"
}
trap finish EXIT

install -d -m 755 "$dir/plugins"
install -m 755 "$build/plugins/$plugin.so" "$dir/plugins"
"$build/dsv4d" --model "$source/etc/tiny" --listen 127.0.0.1:0 --control "$DSV4D_SOCKET" --state "$dir/state" \
	--kernels ref --plugins "$dir/plugins" 2>"$dir/log" &
daemon=$!
"$build/dsv4ctl" wait ready --timeout 240 >/dev/null
"$build/dsv4ctl" plugin load "$plugin" >/dev/null
cat >"$dir/messages" <<-'END'
	{"messages": [{"role": "user", "content": "Remember this: my codeword is poppy."},
	              {"role": "assistant", "content": "Noted. The codeword is poppy."},
	              {"role": "user", "content": "What is my codeword?"}]}
END
"$build/dsv4ctl" compare --prompt "$dir/messages" --a ref --b "$plugin"
