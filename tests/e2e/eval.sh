#!/bin/sh
# dsv4-eval's command line: what it refuses, with which words and which exit status.
set -eu
program="$top_builddir/dsv4-eval"
model="$top_srcdir/etc/tiny"
cases="$top_srcdir/tests/data/golden/exact.safetensors"
. "$top_srcdir/tests/lib/want.sh"

printf 'not a tensor file' >"$dir/junk"
install -m 0755 "$top_builddir/plugins/mhc-bf16.so" "$dir"
install -m 0755 "$top_builddir/dsv4-eval" "$dir/junk.so"
want 0 "usage: dsv4-eval --model DIR" --help
want 0 "dsv4-eval " --version
want 2 "--model, --in and --out are needed"
want 2 "--model, --in and --out are needed" --model "$model"
want 2 "unrecognized option" --modle "$model"
want 2 "what is meant by extra" --model "$model" --in "$cases" --out "$dir/o" extra
want 2 "expected native or exact, found fast" --model "$model" --in "$cases" --out "$dir/o" --profile fast
want 2 '--chunk: "0" is not a whole number' --model "$model" --in "$cases" --out "$dir/o" --chunk 0
want 2 '--threads: "two" is not a whole number' --model "$model" --in "$cases" --out "$dir/o" --threads two
want 2 "index_key: \"fp5\" is none of fp4|fp8|bf16|f32" \
	--model "$model" --in "$cases" --out "$dir/o" --set index_key=fp5
want 2 "expected PARAMETER=VALUE, found index_key" --model "$model" --in "$cases" --out "$dir/o" --set index_key
want 2 'no parameter "topk"; there are: index_topk' --model "$model" --in "$cases" --out "$dir/o" --set topk=3
want 2 'unknown family or op; there are: gemm' --model "$model" --in "$cases" --out "$dir/o" --kernels mla=ref
want 69 'no plugin "attn-splitk" is loaded' \
	--model "$model" --in "$cases" --out "$dir/o" --kernels attention=attn-splitk
want 69 "$dir/none.so" --model "$model" --in "$cases" --out "$dir/o" --plugin "$dir/none.so"
want 69 "no-facts" --model "$model" --in "$cases" --out "$dir/o" --plugin "$dir/junk.so"
want 69 'no plugin "none" is loaded' --model "$model" --in "$cases" --out "$dir/o" --kernels gemm=none
want 69 'no plugin "none" is loaded' --model "$model" --in "$cases" --out "$dir/o" --kernels all=none
want 2 "there is a plugin of this name already" --model "$model" --in "$cases" --out "$dir/o" \
	--plugin "$dir/mhc-bf16.so" --plugin "$dir/mhc-bf16.so"
want 69 "$dir/none" --model "$dir/none" --in "$cases" --out "$dir/o"
want 2 "$dir/none" --model "$model" --in "$dir/none" --out "$dir/o"
want 2 "$dir/junk" --model "$model" --in "$dir/junk" --out "$dir/o"
cp "$cases" "$dir/same"
ln "$dir/same" "$dir/hard"
ln -s same "$dir/soft"
for name in same hard soft; do
	want 2 "--out is the file of --in" --model "$model" --in "$dir/same" --out "$dir/$name" --top-only
done
cmp "$cases" "$dir/same" || failed=1
want 2 "no tensor is named NAME.tokens" --model "$model" --in "$model/model-00001-of-00002.safetensors" --out "$dir/o"
want 2 "--diff takes two files" --diff "$cases"
want 2 "$dir/junk" --diff "$cases" "$dir/junk"
want 2 "no result in common" --diff "$cases" "$model/model-00001-of-00002.safetensors"
want 0 "0 tensors beyond the tolerance" --diff "$cases" "$cases" --tolerance 0
want 1 "BEYOND" --diff "$cases" "$top_srcdir/tests/data/golden/native.safetensors" --tolerance 1e-3
want 0 "" --diff "$cases" "$top_srcdir/tests/data/golden/native.safetensors"
[ ! -e "$dir/o" ] || { echo "a refused run left its output file" >&2; failed=1; }
exit $failed
