#!/bin/sh
# code.sh: what nvcc made of every plugin for GPUs has the architectures it shall have, and spills no register: as ptxas said,
# and as cuobjdump says where there is one ($CUOBJDUMP, in PATH, or where bootstrap puts it); and that kernels which are
# there for one instruction have it, where nvdisasm is beside it or in PATH.
set -eu
build=${top_builddir:-build}

make_var() {
	sed -n "s/^$1 = //p" "$build/Makefile"
}
[ -n "$(make_var NVCC)" ] || { echo 'built without nvcc'; exit 77; }

failed=0
fail() {
	printf 'FAILED: %s\n' "$*"
	failed=1
}

number() { # FILE OFFSET BYTES
	od -An -j"$2" -N"$3" -tu"$3" "$1" | tr -d ' '
}

# The parts of a fatbin: a head of 16 bytes; each part says its kind (1 PTX, 2 a GPU's own code), the size of its own
# head and of what follows, and its architecture.
parts() {
	size=$(($(wc -c <"$1"))) at=16
	[ "$(number "$1" 0 4)" = 3126193488 ] || { echo no-fatbin; return; }
	while [ "$at" -lt "$size" ]; do
		case $(number "$1" "$at" 2) in 1) kind=compute ;; 2) kind=sm ;; *) kind=unknown ;; esac
		printf '%s_%s ' "$kind" "$(number "$1" $((at + 28)) 4)"
		at=$((at + $(number "$1" $((at + 4)) 4) + $(number "$1" $((at + 8)) 8)))
	done
}

for dir in "$build"/venv/lib/python3*/site-packages/nvidia/cu*/bin; do
	PATH=$PATH:$dir
done
cuobjdump=${CUOBJDUMP:-$(command -v cuobjdump || true)}
[ -n "$cuobjdump" ] || echo 'no cuobjdump: ptxas alone is believed'

# What a driver makes of the PTX for GPUs that no code is meant for, the oldest and the newest.
ptxas=$(dirname "$(make_var NVCC)")/ptxas
as_elsewhere() { # FATBIN NAME
	dir=$(mktemp -d)
	at=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
	(cd "$dir" && "$cuobjdump" -xptx all "$at" >/dev/null)
	for arch in sm_80 sm_89 sm_121; do
		"$ptxas" -v -arch=$arch -o /dev/null "$dir"/*.ptx >"$dir/said" 2>&1 || fail "$2: the PTX is none for $arch"
		grep -q ' 0 bytes spill stores' "$dir/said" && ! grep -q ' [1-9][0-9]* bytes spill stores' "$dir/said" ||
			fail "$2: registers are spilled for $arch"
	done
	rm -r "$dir"
}

# The code itself: a spilled register is in a kernel's stack, so that those without one are as many as ptxas told of.
dumped() { # FATBIN NAME RESOURCES
	for arch in sm_90a sm_100a sm_120a; do
		"$cuobjdump" --list-elf "$1" | grep -q "\\.$arch\\.cubin" || fail "$2: cuobjdump finds no code for $arch"
	done
	"$cuobjdump" --list-ptx "$1" | grep -q '\.sm_80\.ptx' || fail "$2: cuobjdump finds no PTX of sm_80"
	as_elsewhere "$1" "$2"
	found=$("$cuobjdump" -res-usage "$1" 2>&1 | grep -c 'REG:.* STACK:0 .* LOCAL:0 ') || true
	told=$(grep -c ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' "$3") || true
	[ "$found" = "$told" ] || fail "$2: cuobjdump finds $found kernels without memory of their own, ptxas told of $told"
}

instructions() { # FATBIN ARCHITECTURE KERNEL INSTRUCTION
	n=$("$cuobjdump" -sass -arch "$2" "$1" 2>&1 |
		awk -v kernel="$3" '/Function : / { in_it = $3 == kernel } in_it' | grep -cF " $4 ") || true
	[ "$n" -gt 0 ] || fail "$3 has no $4 in its code for $2"
	echo "$3: $n $4 for $2"
}

checked=0
for fatbin in "$build"/plugins/*/*.fatbin; do
	checked=$((checked + 1))
	name=$(basename "$fatbin" .fatbin)
	said=${fatbin%.fatbin}.resources
	has=$(parts "$fatbin")
	[ "$has" = 'sm_90 sm_100 sm_120 compute_80 ' ] || fail "$name has code for $has"
	for arch in sm_90a sm_100a sm_120a; do
		grep -q "Compiling entry function '$name.*' for '$arch'" "$said" || fail "$name: nothing for $arch"
	done
	spills=$(awk '/Compiling entry function/ { split($0, q, "\047"); at = q[2] " " q[4] }
		/bytes spill stores/ && !/ 0 bytes spill stores, 0 bytes spill loads/ { print at ": " $0 }' "$said")
	[ -z "$spills" ] || fail "registers are spilled:
$spills"
	[ -z "$cuobjdump" ] || dumped "$fatbin" "$name" "$said"
	echo "$name: $(grep -c 'Compiling entry function' "$said") kernels"
done
[ "$checked" -gt 0 ] || fail 'no code for GPUs'
if [ -n "$cuobjdump" ] && PATH=$(dirname "$cuobjdump"):$PATH && command -v nvdisasm >/dev/null; then
	gemm=$build/plugins/cuda-gemm-fp8/cuda_gemm_fp8.fatbin moe=$build/plugins/cuda-moe-fp4/cuda_moe_fp4.fatbin
	instructions "$moe" sm_90a cuda_moe_fp4_products HMMA.16816.F32.BF16
	instructions "$moe" sm_100a cuda_moe_fp4_products_sm100 UTCQMMA
	instructions "$moe" sm_120a cuda_moe_fp4_products_sm120 QMMA.SF.16832.F32.E2M1.E4M3.E8
	instructions "$gemm" sm_120a cuda_gemm_fp8_few_sm120 QMMA.SF.16832.F32.E4M3.E4M3.E8
	instructions "$gemm" sm_120a cuda_gemm_fp8_many_sm120 QMMA.SF.16832.F32.E4M3.E4M3.E8
fi
exit $failed
