#!/bin/sh
# tests/vectors' command line: a file that proves nothing is an error, not "0 failed".
set -eu
program="$top_builddir/tests/vectors"
. "$top_srcdir/tests/lib/want.sh"

echo '{}' >"$dir/none.json"
echo '{"encode": [], "decode": []}' >"$dir/empty.json"
echo '[]' >"$dir/list.json"
echo '{"decode": [{"name": "x", "text": "wrong", "message": {}}]}' >"$dir/wrong.json"
want 2 "usage: "
want 2 "none.json: no case in it" encoding "$dir/none.json"
want 2 "empty.json: no case in it" encoding "$dir/empty.json"
want 2 "list.json: no case in it" encoding "$dir/list.json"
want 2 "absent.json" encoding "$dir/absent.json"
want 1 "0 passed, 1 failed" encoding "$dir/wrong.json"
want 0 " passed, 0 failed" encoding "$top_srcdir/tests/data/encoding_vectors.json"
exit $failed
