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
	# What an op is called, reads and writes, and how far two results are apart, the engine asks plugins/op.
	check engine 'engine/[a-z0-9_/]+\.(h|def)|plugins/(dsv4_plugin|dsv4_numfmt|dsv4_rows16)\.h|plugins/ops\.def|plugins/op/op_[a-z]+\.h|config\.h' |
		grep -vE '^engine/kernels/(kset|provider)\.c:.*"plugins/ref/ref\.h"' || true
	# engine/ in layers: a folder sees itself, base and what its line names; engine/*.[ch] see all. gen.h has the
	# plain values that prompts, completions and requests share. A new folder gets its line.
	for d in engine/*/; do
		case $d in
		engine/base/) continue ;;
		engine/checkpoint/) sees='' ;;
		engine/text/) sees='engine/gen\.h' ;;
		engine/device/) sees='' ;;
		engine/kernels/) sees='engine/device/device\.h' ;;
		engine/model/) sees='engine/(checkpoint|device|kernels)/.*' ;;
		engine/beside/) sees='engine/(checkpoint|device|kernels|model)/.*' ;;
		engine/plugin/) sees='engine/(device/(device|ranks)|kernels/provider)\.h' ;;
		engine/cache/) sees='engine/(checkpoint|kernels|model)/.*' ;;
		# what an answer must be: of tokens it knows what the tokenizer says, of a request only the plain values
		engine/constrain/) sees='engine/gen\.h|engine/text/.*' ;;
		engine/serve/) sees='engine/gen\.h|engine/(text|kernels|model|cache|constrain)/.*' ;;
		engine/eval/) sees='engine/(checkpoint|device|kernels|model|plugin)/.*' ;;
		*) echo "$d: who may it include?"; continue ;;
		esac
		check "${d%/}" "${d}.*|engine/base/.*|plugins/.*|config\.h${sees:+|$sees}"
	done
	check plugins 'plugins/[a-z0-9_/-]+\.(h|def)|dsv4_(numfmt|plugin)\.h|ops\.def' | grep -vE '^plugins/(check|op)/' || true
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
	# one file speaks to other servers; what stands on it sees struct probe_peer's ops, so that tests can stand in for it
	find engine api ctl daemon plugins -name '*.[ch]' | xargs grep -nHE '#[ \t]*include[ \t]*<curl/' |
		grep -v '^ctl/probe/probe_http\.c:' || true
	check ctl 'ctl/[a-z0-9_/]+\.(h|def)|engine/base/[a-z0-9_]+\.(h|def)|config\.h'
	# probes talk to any server: they know nothing of the control protocol, and of it only dsv4ctl's own files see them
	check ctl/probe 'ctl/probe/[a-z0-9_]+\.(h|def)|engine/base/[a-z0-9_]+\.(h|def)|config\.h'
	find ctl -maxdepth 1 -name '*.[ch]' ! -name 'ctl_*' | xargs grep -nH '"ctl/probe/' || true
	# plugins/shipped.h is made by make; golden.h runs ref, which the daemon knows nothing else of.
	check daemon '(daemon|ctl|api)/[a-z0-9_/]+\.(h|def)|plugins/check/(check|golden)\.h|plugins/shipped\.h|engine/engine\.h|engine/base/[a-z0-9_]+\.(h|def)|config\.h'
	# daemon/ in layers: control carries calls, kernels keeps plugins and sets, probes runs under sets, tell looks at
	# these, verbs see all; daemon/*.[ch] see all and are seen by all. A new folder gets its line.
	for d in daemon/*/; do
		case $d in
		# which handler serves a verb control knows by the table's names
		daemon/control/) sees='daemon/verbs/verbs\.h' ;;
		daemon/kernels/) sees='' ;;
		# a probe tells what a comparison found as `compare` does
		daemon/probes/) sees='daemon/kernels/.*|daemon/verbs/compare_reply\.h' ;;
		# the page shows what verbs reply, by the table's names
		daemon/tell/) sees='daemon/(kernels|probes)/.*|daemon/verbs/verbs\.h' ;;
		daemon/verbs/) sees='daemon/.*' ;;
		*) echo "$d: who may it include?"; continue ;;
		esac
		check "${d%/}" "${d}.*|daemon/[a-z0-9_]+\.(h|def)|(ctl|api|engine|plugins)/.*|config\.h${sees:+|$sees}"
	done
	# plugins see libc and libm only
	find plugins -name '*.[ch]' | xargs grep -nHE '#[ \t]*include[ \t]*<(jansson|microhttpd|pcre2|curl|zlib|systemd)' || true
	# what an op's arguments are, for the check library and the engine; no plugin's
	check plugins/op 'plugins/op/[a-z0-9_]+\.h|plugins/ref/vec\.h|plugins/dsv4_(plugin|weight)\.h|plugins/ops\.def|engine/base/must\.h'
	# the check library holds plugins against ref; it is the daemon's and kcheck's, no plugin's. The program kcheck.c,
	# which is no part of the library, maps plugins and opens GPUs exactly as the daemon does.
	check plugins/check 'plugins/(check|op|ref)/[a-z0-9_]+\.(h|def)|plugins/(dsv4_plugin|dsv4_numfmt|dsv4_rows16)\.h|plugins/ops\.def|engine/base/[a-z0-9_]+\.(h|def)' |
		grep -vE '^plugins/check/kcheck\.c:.*"engine/plugin/plugin_map\.h"' |
		grep -vE '^plugins/check/kcheck_device\.h:.*"engine/device/(cuda_driver|device|queue)\.h"' || true
	# a plugin looks into no other plugin's folder; x86/ is the source that two share, cuda/ that of those for GPUs
	for d in plugins/*/; do
		case $d in
		plugins/check/ | plugins/op/) continue ;;
		plugins/avx2/ | plugins/avx512/) sees='|plugins/x86/.*' ;;
		plugins/cuda-*/) sees='|plugins/cuda/.*' ;;
		*) sees='' ;;
		esac
		check "${d%/}" "plugins/(dsv4_plugin|dsv4_numfmt|dsv4_rows16|dsv4_weight)\.h|plugins/ops\.def|${d}[a-z0-9_]+\.(h|def)$sees"
	done
)
if [ -n "$bad" ]; then
	printf 'includes that break the rule:\n%s\n' "$bad"
	exit 1
fi
