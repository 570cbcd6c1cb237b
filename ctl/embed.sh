#!/bin/sh
# embed.sh FILE.varlink...: prints C source with the table of interface descriptions (iface.h).
set -eu
echo '#include "ctl/iface.h"'
echo '#include <stddef.h>'
echo '#include <string.h>'
echo 'const struct iface iface_table[] = {'
for f; do
	echo "	{ \"$(basename "$f" .varlink)\","
	sed 's/[\\"]/\\&/g; s/^/	  "/; s/$/\\n"/' "$f"
	echo '	},'
done
cat <<'END'
};
const int iface_count = (int)(sizeof iface_table / sizeof *iface_table);

const struct iface *iface_find(const char *name)
{
	for (int i = 0; i < iface_count; i++)
		if (!strcmp(iface_table[i].name, name))
			return &iface_table[i];
	return NULL;
}
END
