#!/bin/sh
# embed.sh FILE NAME: prints C source with the bytes of FILE as NAME[] and NAME_len.
set -eu
printf '#include <stddef.h>\nextern const unsigned char %s[];\nextern const size_t %s_len;\n' "$2" "$2"
printf 'const unsigned char %s[] = {\n' "$2"
od -An -v -tu1 "$1" | sed 's/[0-9][0-9]*/&,/g'
printf '0 };\nconst size_t %s_len = sizeof %s - 1;\n' "$2" "$2"
