# SPDX-License-Identifier: Apache-2.0
# Check #include "..." lines against layers.txt (the first file), which explains
# itself.  With -v table=1: print a table of the rooms instead.
function folder_of(path)
{
	return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "."
}
function room_of(path,   at)
{
	for (at = folder_of(path); !(at in known) && at ~ /\//;)
		at = folder_of(at)
	return at in known ? at : ""
}
# A unit of the header's folder, or a fuzz target.
function is_test_of(file, path,   top)
{
	top = substr(path, 1, index(path, "/"))
	return file ~ /^tests\/fuzz\// || index(file, "tests/unit/" top) == 1
}
# A folder and one below it: what glues rooms together has them, and they its headers.
function is_below(a, b)
{
	return index(a, b "/") == 1 || index(b, a "/") == 1
}
# Rooms that have each other, in however many steps.
function circles(   a, b, c, pair, has)
{
	for (pair in may) {
		split(pair, part, SUBSEP)
		a = part[1]
		b = part[2] ~ /\.h$/ ? room_of(part[2]) : part[2]
		if (b != "" && a != b && !is_below(a, b))
			has[a, b] = 1
	}
	for (b in known)
		for (a in known)
			for (c in known)
				if ((a, b) in has && (b, c) in has)
					has[a, c] = 1
	for (a in known)
		if ((a, a) in has)
			fault(row_at[a] ": " a " has itself by way of others")
}
function fault(text)
{
	print text
	bad = 1
}
BEGIN { FS = " [|] " }
FNR == NR {
	if ($0 ~ /^#/ || $0 ~ /^[ \t]*$/)
		next
	if (NF != 4)
		fault(FILENAME ":" FNR ": wanted are four columns")
	known[$1] = 1
	row_at[$1] = FILENAME ":" FNR
	n_public = split($2, item, " ")
	for (i = 1; i <= n_public; i++)
		if (item[i] == "*")
			all_public[$1] = 1
		else
			public[$1 "/" item[i]] = 1
	n_may = split($3, item, " ")
	for (i = 1; i <= n_may; i++) {
		may[$1, item[i]] = 1
		if (item[i] ~ /\.h$/)
			single[$1, item[i]] = FILENAME ":" FNR
	}
	rows[++n_rows] = "| " $1 " | " $4 " |"
	next
}
/^#include "/ {
	from = room_of(FILENAME)
	split($0, quoted, "\"")
	path = quoted[2]
	to = room_of(path)
	if (path ~ /_priv\.h$/ && folder_of(path) != folder_of(FILENAME) &&
	    !is_test_of(FILENAME, path)) {
		fault(FILENAME ":" FNR ": " path " is private")
		next
	}
	# Tests and benches look into rooms: that is what they are for.
	if (FILENAME ~ /^(tests|bench)\//)
		next
	if (from == "") {
		fault(FILENAME ": its folder is not in layers.txt")
		nextfile
	}
	delete single[from, path]
	if (to != from && !((from, path) in may) &&
		 !((from, to) in may && (to in all_public || path in public)))
		fault(FILENAME ":" FNR ": may not include " path)
}
END {
	if (table) {
		print "| room | what |"
		print "|---|---|"
		for (i = 1; i <= n_rows; i++)
			print rows[i]
		exit
	}
	circles()
	for (key in single) {
		split(key, part, SUBSEP)
		fault(single[key] ": " part[1] " includes " part[2] " no more")
	}
	exit bad
}
