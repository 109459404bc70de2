# SPDX-License-Identifier: Apache-2.0
# Check #include "..." lines against layers.txt (the first file).
FNR == NR {
	if ($1 ~ /^#/ || NF == 0)
		next
	known[$1] = 1
	for (i = 2; i <= NF; i++)
		may[$1, $i] = 1
	next
}
/^#include "/ {
	split(FILENAME, part, "/")
	from = part[1]
	path = $2
	gsub(/"/, "", path)
	split(path, to, "/")
	if (!(from in known)) {
		print FILENAME ": folder '" from "' is not in layers.txt"
		bad = 1
		next
	}
	if (path ~ /\.pb-c\.h$/ || to[1] == from)
		next
	if (may[from, path])
		next
	if (may[from, to[1]] &&
	    (to[1] == "common" || path == to[1] "/" to[1] ".h" || public[path]))
		next
	print FILENAME ":" FNR ": may not include " path
	bad = 1
}
BEGIN {
	public["blockstore/oci.h"] = public["blockstore/device.h"] = 1
	public["recorder/trace.h"] = 1
}
END { exit bad }
