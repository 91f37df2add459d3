# Mail::DKIM as a peer of mail_differential.py: one JSON object a line in, one out, until the input ends. The key records come from the
# first line, {"zone": {name: {"TXT": [[string, …], …]}}}; nothing is asked of any server. What is named in neither "zone" nor below one
# of "apex" fails, as it does for everyone else in the test. Messages travel in base64.
#   {"op": "sign", "message", "d", "s", "key": path of a PEM file, "c": "relaxed/simple", "h": "from:to"}  {"field": …}
#   {"op": "verify", "message"}                                {"dkim": [["d", "s", result, detail], …], "arc": result}
use strict;
use warnings;
use JSON::PP;
use MIME::Base64;
use Mail::DKIM::Signer;
use Mail::DKIM::Verifier;
use Mail::DKIM::ARC::Verifier;
use Net::DNS;

my $json = JSON::PP->new->latin1;
my ($zone, @apex);
{
	no warnings 'redefine';
	*Mail::DKIM::DNS::query = sub {
		my ($name, $type) = @_;
		$name = lc $name;
		my $node = $zone->{$name};
		die "DNS error: no such zone\n" if !grep { $name eq $_ || substr($name, -length($_) - 1) eq ".$_" } @apex;
		$@ = $node ? 'NODATA' : 'NXDOMAIN';
		return if !$node || !$node->{TXT};
		$@ = 'NOERROR';
		return map { Net::DNS::RR->new(name => $name, type => 'TXT', txtdata => $_) } @{ $node->{TXT} };
	};
}

sub verdicts {
	my ($text) = @_;
	my %out = (dkim => [], arc => undef);
	my $v = Mail::DKIM::Verifier->new;
	$v->PRINT($text);
	$v->CLOSE;
	for my $s ($v->signatures) {
		push @{ $out{dkim} }, [$s->domain // '', $s->selector // '', $s->result // 'none', $s->result_detail // ''];
	}
	my $a = Mail::DKIM::ARC::Verifier->new;
	$a->PRINT($text);
	$a->CLOSE;
	$out{arc} = $a->result;
	$out{arc_detail} = $a->result_detail;
	return \%out;
}

$| = 1;
while (my $line = <STDIN>) {
	my $q = $json->decode($line);
	my $answer = {};
	if ($q->{zone}) {
		$zone = $q->{zone};
		@apex = @{ $q->{apex} };
	} elsif ($q->{op} eq 'sign') {
		eval {
			my $s = Mail::DKIM::Signer->new(Algorithm => 'rsa-sha256', Method => $q->{c}, Domain => $q->{d}, Selector => $q->{s},
				KeyFile => $q->{key}, Headers => $q->{h});
			$s->PRINT(decode_base64($q->{message}));
			$s->CLOSE;
			$answer->{field} = $s->signature->as_string;
		};
		$answer->{error} = "$@" if !defined $answer->{field};
	} else {
		eval { $answer = verdicts(decode_base64($q->{message})) };
		$answer = { error => "$@" } if !$answer->{dkim};
	}
	print $json->encode($answer), "\n";
}
