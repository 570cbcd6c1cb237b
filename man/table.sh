#!/bin/sh
# table.sh FILE.def: the rows of an X-macro table, one a line, its fields separated by tabs: the macro's name, then the
# arguments; strings without their quotes, pieces joined. A comment of one line stands as `#', tab, its text.
set -eu
awk '
function row(s,    out, field, quoted, n, c, i) {
	sub(/\)[ \t]*$/, "", s)
	i = index(s, "(")
	out = substr(s, 1, i - 1)
	for (s = substr(s, i + 1); (n = length(s)) > 0;) {
		c = substr(s, 1, 1)
		s = substr(s, 2)
		if (c == "\"") {
			while ((c = substr(s, 1, 1)) != "\"") {
				if (c == "\\") {
					s = substr(s, 2)
					c = substr(s, 1, 1)
				}
				field = field c
				s = substr(s, 2)
			}
			s = substr(s, 2)
		} else if (c == ",") {
			out = out "\t" field
			field = ""
		} else if (c !~ /[ \t]/) {
			field = field c
		}
	}
	print out "\t" field
}
held == "" && /^\/\* [^\n]* \*\/$/ { sub(/^\/\* /, ""); sub(/\.? \*\/$/, ""); print "#\t" $0; next }
held == "" && !/^[A-Z_]+\(/ { next }
{ held = held == "" ? $0 : held " " $0 }
/\)[ \t]*$/ { row(held); held = "" }
' "$1"
