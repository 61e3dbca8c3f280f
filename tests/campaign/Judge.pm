# The judge of a campaign: whether a run of a case is right, a documented stop, or a failure.
#
# SPDX-License-Identifier: BSD-3-Clause
package Judge;
use strict;
use warnings;
use Exporter 'import';
use FtkitTest qw(died_at_end);

our @EXPORT_OK = qw(judge crashes reasons sanitizer);

# Stops that docs/limits.md, log.md and replicas.md have, by the words of their lines.
my @reasons = (
    ['no copy is left' => qr/no copy or parity is left|there is no complete set anywhere else/],
    ['before the first set' => qr/before the first set (?:was written|of a job|of ftkit_checkpoint)|could not begin/],
    ['at the end of the loop' => qr/already left its loop|of its team had already left/],
    ['before a context was opened' => qr/was gone before any context was opened/],
    ['in ftkit_close' => qr/lost in ftkit_close, before its program could end/],
    ['all ranks lost' => qr/every working rank is lost/],
    ['a choice of MPI is not known' => qr/it cannot be told which one/],
    ['no process for a lost rank' => qr/spares? left: the job has to be relaunched|too few spares/],
    ['repairs without progress' => qr/has died \d+ times at the same call|\(recover\.attempts\)/],
    ['the watchdog ends the job' => qr/a repair has not ended for [\d.]+ s|: ending the job/],
    ['the last set is lost' => qr/needs a new start of the job/],
    ['no record of set-up is left' => qr/record of its set-up could not be read/],
    ['a set of another number of ranks' => qr/set \d+ in memory is of \d+ ranks, not \d+, and there are no files/],
    ['a set cannot be read' => qr/no usable set|is damaged, wherever/],
);
sub reasons { return @reasons }

# Crashes inside Open MPI and its runtime that are known, by their stacks or words.
my @known = (
    ['agreement with a dead member (era_mark_process_failed)' => qr/era_mark_process_failed/],
    ['a request freed twice (Send error after request freed)' => qr/Send error after request freed/],
    ['the runtime frees a wrong pointer (pmix_server_dyn.c)' => 
        qr/free\(\): invalid pointer.*(?:prterun|prted|pmix_server)|pmix_server_dyn/s],
    ['the runtime crashes' => qr/(?:prterun|prted)\S* .*(?:Segmentation fault|Aborted)|\[prterun-[^\]]*\].*Signal: /],
    ['a spawned process without a topology (pmix_gds_shmem2_fetch)' => qr/pmix_gds_shmem2_fetch/],
    ['a process cannot reach the runtime (PMIx_Init)' => qr/PMIx_Init.*(?:timeout|unreach)/i],
);

sub known_crashes { return @known }

# The kinds of crashes of Open MPI in a log.
sub crashes {
    my ($log) = @_;
    return map { $_->[0] } grep { $log =~ $_->[1] } @known;
}

# The first report of a sanitizer that no known crash of Open MPI explains: its first line, and the first
# functions of its stack; or ''.  AddressSanitizer and LeakSanitizer have a file for each process, UBSan writes
# to the log; Open MPI is built without it.
my $report = qr/^.*(?:ERROR: \w+Sanitizer:|:\d+: runtime error:).*$/m;

sub sanitizer {
    my ($r, $log) = @_;
    for my $text (map { split(/(?=$report)/) } @{ $r->{reports} // [] }, $log) {
        my ($line) = $text =~ /($report)/ or next;
        next if $line !~ /runtime error:/ && crashes($text);
        my @functions = $text =~ /^\s*#\d+ 0x\w+ in (\S+)/mg;
        return join(', ', $line, splice(@functions, 0, 4));
    }
    return '';
}

# Reasons that the loss of one process, or of one node, is none for.  A spawn can hang (docs/limits.md).
my %several = map { $_ => 1 } 'no copy is left', 'all ranks lost', 'no process for a lost rank',
    'repairs without progress', 'a set cannot be read', 'no record of set-up is left',
    'before a context was opened', 'the last set is lost';

# Why a job must not have stopped for this reason; or ''.
sub duty {
    my ($c, $reason, $log) = @_;
    return '' if $reason eq 'a set of another number of ranks' && ($c->{config}{'recover.supply'} // '') =~ /shrink/
        && $c->{config}{'level.hdf5.enabled'} # is off: only files serve another number of ranks
        && $log =~ /, [1-9]\d* given up,/;
    return 'may be relaunched' if $c->{relaunch};
    # a process that the machine has not let run for recover.timeout is one more loss
    return '' if $log =~ /has (?:been stopped|not come to the repair) for [\d.]+ s: killed/;
    return '' if @{ $c->{faults} } != 1 || ($c->{config}{'level.memory.scheme'} // 'buddy') !~ /buddy|xor|rs/;
    my ($f) = @{ $c->{faults} };
    return 'one loss' if $f =~ /:kill$|^(?:kill|link) / && $several{$reason};
    return 'one process of a job with a set'
        if $f =~ /^app\.\w+:\d+:(\d+):kill$/ && $1 >= 3 && !$c->{config}{'checkpoint.line'}
        && ($c->{config}{'recover.supply'} // '') !~ /^spawn/;
    return '';
}

# What the last attempt of a job has written: an earlier one has ended for reasons of its own.
sub last_attempt { my ($log) = @_; return $log =~ s/\A.*^ftkit run: [^\n]*relaunching[^\n]*\n//msr }

# Whether the program itself has ended a whole job, because the last set is not in the files: the disk is
# full for good, and ftkit_close() says so to the program, which has its result.
sub disk_is_full {
    my ($r, $log, $same) = @_;
    my ($code) = $log =~ /^ftkit run: rank \d+ of the job ended with exit code (\d+) when all contexts were closed$/m;
    return $same && defined($code) && $code == $r->{rc} && (grep { /^fill disk/ && !/until/ } @{ $r->{outside} // [] })
        && $log =~ /^ftkit: warning: context \S+: set \d+: .*No space left on device$/m && $log =~ /no space left: /;
}

# Whether the faults have killed every process that had a rank, so that none was left to say so.
sub all_are_killed {
    my ($c, $r, $log) = @_;
    my @points = grep {/ rank \d+ incarnation \d+: kill$/} @{ $r->{faults} };
    return 0 if $log !~ /^ftkit run: attempt \d+ ended because .* was killed by signal 9 .* with a context still open/m;
    return 0 if $log =~ /^ftkit run: killed node/m || $log =~ /^ftkit run: .*relaunching/m; # not known how many
    my %outside = map { $_ => 1 } $log =~ /^ftkit run: killed rank \d+ \(process (\d+)\)/mg;
    return 1 if $log !~ /spawning \d+ process/ && @points + keys %outside == $c->{n} * $c->{replicas} + $c->{spares};
    return 0 if $c->{spares} && grep {/^(?:repair|transfer|rebuild)\.|^files\.re|^archive\.(?:open|read)/} @points; # perhaps of a spare
    my $had_rank = $c->{n} * $c->{replicas};
    $had_rank += $_ for $log =~ /: (\d+) ranks? replaced,/g;
    return @points + keys %outside == $had_rank;
}

# What must not be left: all but the files of Open MPI, whose processes were killed; slots of a job that
# was stopped and may be started again; the files of an undisturbed Slurm.
sub leftovers {
    my ($c, $r) = @_;
    my $slots = $r->{rc} == 0 ? qr/^$/ : qr{/ftkit-slot};
    return grep { !m{/(?:sm_segment|vader_segment|btl_|pmix|prte|ompi|openmpi)[^/]*} && !/$slots/ } @{ $r->{left} };
}

# Lines of crashes, of differences between a replay and the first execution, and of refused configurations.
my $crash = qr/^(.*(?:Process\ received\ signal|Signal:\ (?:Segm|Abor|Bus|Float)|AddressSanitizer|runtime\ error:
    |killed\ by\ signal\ (?:4|6|7|8|11)\b).*)$/mx;
my $differs = qr/^(.*(?:is not what it was|does not take the same course|in the replay of set-up).*)$/m;
my $refusal = qr/^ftkit: error: (?:process \d+: |rank \d+: )?((?:unknown|configuration|.* needs |cannot begin).*)$/m;

# Judge a run.  Returns { verdict, detail, repairs, relaunches, crashes }: right, "stop: REASON" and refused
# are no failures; the others are those of reds().
sub judge {
    my ($c, $r, $want) = @_;
    my $log = $r->{log} =~ tr/\0//dr;
    # a line that was in no file yet is lost, and the job has to start again
    my $differences = $log =~ s/^.*record of its set-up could not be read.*\n//gmr;
    my @crashes = crashes(join("\n", $log, @{ $r->{reports} // [] }));
    my %j = (repairs => scalar(() = $log =~ /^ftkit: .*repaired in /mg),
        relaunches => scalar(() = $log =~ /^ftkit run: .*relaunching/mg), crashes => \@crashes);
    my $end = sub { return { %j, verdict => $_[0], detail => ($_[1] // '') =~ s/\s+/ /gr } };
    my $found = sanitizer($r, $log);
    return $end->('sanitizer', $found) if $found ne '';
    return $end->('hang', sprintf('%.0f s', $r->{seconds})) if $r->{rc} == 124 || $log =~ /^guard: [\d.]+ s are over/m;
    return $end->('crash', $1) if !@{ $j{crashes} } && $log =~ $crash;
    my $same = !grep { $_ ne $want } @{ $r->{results} };
    my $none = grep { $_ eq '' } @{ $r->{results} };
    return $end->('wrong result', 'rc 0, ' . substr("@{ $r->{results} }", 0, 200)) if $r->{rc} == 0 && !$same && !$none;
    return $end->('lying exit code', 'rc 0 without a result') if $r->{rc} == 0 && $none;
    return $end->('wrong result', $1) if $log =~ /^(BAD step .*)$/m;
    return $end->('difference', $1) if $differences =~ $differs && !grep {/^(?:flip|\S+corrupt)/} @{ $c->{faults} };
    return $end->('leftover', 'communicators: ' . $1) if $log =~ /^(handles: .*)$/m;
    my $cut = grep {/^link /} @{ $c->{faults} }; # processes on a host without a link end when they notice
    return $end->('leftover', $1) if !$cut && $log =~ /^(guard: left behind.*)$/m && $r->{rc} == 0;
    my @left = leftovers($c, $r);
    my $ends_clean = sub { return @left ? $end->('leftover', join(' ', splice(@left, 0, 6))) : $end->(@_) };
    return $ends_clean->('right') if $r->{rc} == 0;
    my $late = (grep {/^kill /} @{ $c->{faults} }) && $log =~ /killed by a? ?signal.* when all contexts were closed/;
    return $ends_clean->('right', 'a rank died at the end') if $same && ($late || died_at_end({ %$r, log => $log }));
    my ($refused) = $log =~ $refusal;
    return $end->('refused', $refused) if $refused && !@{ $r->{faults} } && $r->{rc} <= 2;
    my $last = last_attempt($log);
    return $ends_clean->('stop: the disk is full') if disk_is_full($r, $last, $same);
    my ($reason) = map { $_->[0] } grep { $last =~ $_->[1] } @reasons;
    $reason ||= 'all ranks lost' if all_are_killed($c, $r, $log);
    return $end->($same ? 'lying exit code' : 'stop without a reason', "rc $r->{rc}") if !$reason;
    # only a spawn may hang (docs/limits.md)
    return $end->('hang', $1) if $log =~ /^(.*a repair has not ended.*)$/m && $log !~ /spawning \d+ process/;
    my $duty = duty($c, $reason, $log);
    return $end->('needless stop', "$duty, and it stopped: $reason") if $duty;
    return $ends_clean->("stop: $reason");
}

# The verdicts that are failures.
sub reds {
    return ('sanitizer', 'hang', 'crash', 'wrong result', 'lying exit code', 'stop without a reason', 'needless stop',
        'difference', 'leftover', 'no undisturbed run');
}

sub is_red { my ($verdict) = @_; return $verdict !~ /^(?:right|refused$|stop: )/ }

1;
