# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Calls of bootseerd's control socket.  In Perl, which is there in a tenth of the time of
# Python: tests call often, and while they wait.  `bats --jobs` has tests begin with SIGALRM
# ignored, and exec() keeps that.

# The answer's body on stdout.
call() # METHOD PARAMS
{
	call_all "$1" /dev/null <<<"${2//$'\n'/ }"
}

# A call on a connection of its own for each line of stdin, its parameters, all at work at
# once; FILE is there when all were sent.  The answers in their order, each as it comes.
call_all() # METHOD FILE
{
	perl -MSocket -e '
		$SIG{ALRM} = "DEFAULT";
		alarm($ENV{LEAVE_AFTER} // 120);
		$| = 1;
		my ($path, $method, $sent) = @ARGV;
		my @all;
		while (my $params = <STDIN>) {
			chomp $params;
			socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
			connect($s, pack_sockaddr_un($path)) or die "$path: $!\n";
			syswrite($s, "POST /v1/$method HTTP/1.1\r\nHost: bootseer\r\n" .
				"Connection: close\r\nContent-Length: " .
				length($params) . "\r\n\r\n$params")
				or die "$path: $!\n";
			push @all, $s;
		}
		open(my $f, ">", $sent) or die "$sent: $!\n";
		close($f);
		$/ = undef;
		for my $s (@all) {
			my $answer = <$s> // "";
			$answer =~ s/\A.*?\r\n\r\n//s or die "$path: no reply\n";
			print $answer;
		}' "$BOOTSEER_SOCKET" "$@"
}
