#!/bin/sh
# includes.sh: who may include whom (README, "Where things are"). Prints each line that breaks the rule.
set -eu
cd "${top_srcdir:-.}"

# check FOLDER ALLOWED-REGEX: every quoted include in FOLDER's files must match the regex.
check() {
	find "$1" -name '*.[ch]' | sort | xargs grep -nH '^[ \t]*#[ \t]*include[ \t]*"' 2>/dev/null |
		grep -vE "include[ \t]*\"($2)\"" || true
}

bad=$(
	check engine/base 'engine/base/[a-z0-9_]+\.(h|def)'
	# kset.c and provider.c alone name the built-in kernels; everything else reaches them through a kernel set.
	# What an op is called, reads and writes, and how far two results are apart, the engine asks plugins/check.
	check engine 'engine/[a-z0-9_/]+\.(h|def)|plugins/(dsv4_plugin|dsv4_numfmt)\.h|plugins/ops\.def|plugins/check/op_(io|diff|name)\.h|config\.h' |
		grep -vE '^engine/model/(kset|provider)\.c:.*"plugins/ref/ref\.h"' || true
	# engine/ in layers: a folder sees itself, base and what its line names; engine/*.[ch] see all. gen.h has the
	# plain values that prompts, completions and requests share. A new folder gets its line.
	for d in engine/*/; do
		case $d in
		engine/base/) continue ;;
		engine/checkpoint/) sees='' ;;
		engine/text/) sees='engine/gen\.h' ;;
		engine/model/) sees='engine/checkpoint/.*' ;;
		engine/beside/) sees='engine/(checkpoint|model)/.*' ;;
		engine/plugin/) sees='engine/model/provider\.h' ;;
		engine/cache/) sees='engine/(checkpoint|model)/.*' ;;
		# what an answer must be: of tokens it knows what the tokenizer says, of a request only the plain values
		engine/constrain/) sees='engine/gen\.h|engine/text/.*' ;;
		engine/serve/) sees='engine/gen\.h|engine/(text|model|cache|constrain)/.*' ;;
		engine/eval/) sees='engine/(checkpoint|model|plugin)/.*' ;;
		*) echo "$d: who may it include?"; continue ;;
		esac
		check "${d%/}" "${d}.*|engine/base/.*|plugins/.*|config\.h${sees:+|$sees}"
	done
	check plugins 'plugins/[a-z0-9_/-]+\.(h|def)|dsv4_numfmt\.h|ops\.def' | grep -v '^plugins/check/' || true
	check api 'api/[a-z0-9_/]+\.(h|def)|engine/engine\.h|engine/base/[a-z0-9_]+\.(h|def)|config\.h'
	# api/ in layers: http carries bytes, request reads what any protocol's body says, and each protocol sees these two,
	# itself and no other protocol; api/*.c see all. What serves a path http knows by the handlers' names in routes.def.
	for d in api/*/; do
		case $d in
		api/page/) continue ;; # no C
		api/http/) sees='' ;;
		api/request/) sees='api/http/.*' ;;
		api/chat/ | api/completions/ | api/anthropic/ | api/responses/) sees='api/(http|request)/.*' ;;
		*) echo "$d: who may it include?"; continue ;;
		esac
		check "${d%/}" "${d}.*|engine/.*|config\.h${sees:+|$sees}"
	done
	check ctl 'ctl/[a-z0-9_]+\.(h|def)|engine/base/[a-z0-9_]+\.(h|def)|config\.h'
	# plugins/shipped.h is made by make; golden.h runs ref, which the daemon knows nothing else of.
	check daemon '(daemon|ctl|api)/[a-z0-9_/]+\.(h|def)|plugins/check/(check|golden)\.h|plugins/shipped\.h|engine/engine\.h|engine/base/[a-z0-9_]+\.(h|def)|config\.h'
	# plugins see libc and libm only
	find plugins -name '*.[ch]' | xargs grep -nHE '#[ \t]*include[ \t]*<(jansson|microhttpd|pcre2|curl|zlib|systemd)' || true
	# the check library holds plugins against ref; it is the daemon's, kcheck's and the engine's, no plugin's. The
	# program kcheck.c, which is no part of the library, maps plugins exactly as the daemon does.
	check plugins/check 'plugins/(check|ref)/[a-z0-9_]+\.(h|def)|plugins/(dsv4_plugin|dsv4_numfmt)\.h|plugins/ops\.def|engine/base/[a-z0-9_]+\.(h|def)' |
		grep -vE '^plugins/check/kcheck\.c:.*"engine/plugin/plugin_map\.h"' || true
	# a plugin looks into no other plugin's folder
	for d in plugins/*/; do
		[ "$d" = plugins/check/ ] || check "${d%/}" "plugins/(dsv4_plugin|dsv4_numfmt)\.h|plugins/ops\.def|${d}[a-z0-9_]+\.(h|def)"
	done
)
if [ -n "$bad" ]; then
	printf 'includes that break the rule:\n%s\n' "$bad"
	exit 1
fi
