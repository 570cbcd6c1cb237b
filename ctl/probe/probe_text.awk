# SPDX-License-Identifier: MIT
# probe_text.awk - what the probes call words, lines, maxrun and maxline: LC_ALL=C awk -f probe_text.awk FILE
# The third figure of a text, gzip, is the bytes of `gzip -6 -c <FILE` over those of FILE.
/[0-9A-Za-z\200-\377]/ {
	lines++
	if (++same[$0] > maxline)
		maxline = same[$0]
}
{
	n = split($0, word, /[ \t\v\f\r]+/)
	for (i = 1; i <= n; i++) {
		if (word[i] "" == "")
			continue
		words++
		run = words > 1 && word[i] "" == last "" ? run + 1 : 1
		last = word[i]
		if (run > maxrun)
			maxrun = run
	}
}
END { printf "words=%d lines=%d maxrun=%d maxline=%d\n", words, lines, maxrun, maxline }
