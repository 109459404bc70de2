# SPDX-License-Identifier: Apache-2.0
# Sum a TAP stream as "passed failed skipped". What was planned and told nothing has
# failed: a file that cannot be read, or whose setup_file fails, is one line of
# bats for all of its tests. The number of those goes to stderr.
/^1\.\.[0-9]+/ { plan = substr($0, 4) + 0; planned = 1 }
/^ok / { if (/ # [Ss][Kk][Ii][Pp]/) s++; else p++ }
/^not ok / { f++ }
# Not one of the tests.
/^not ok [0-9]+ (setup|teardown)_(file|suite) failed/ { more++ }
END {
	missing = plan - (p + f + s - more)
	if (!planned) {
		print "no plan" >"/dev/stderr"
		f++
	} else if (missing > 0) {
		print missing " of " plan " planned tests told nothing" >"/dev/stderr"
		f += missing
	}
	print p + 0, f + 0, s + 0
}
