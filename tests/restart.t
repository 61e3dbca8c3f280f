#!/usr/bin/perl
# The job as a whole is lost and started again; errors of the file system (rows R5, S8, S10).
#
# SPDX-License-Identifier: BSD-3-Clause
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use FtkitTest;
use File::Path qw(remove_tree);
use Test::More;
use Time::HiRes qw(time);

ulfm_only();
# while the program waits, so that it is known which set is there; else: flush.t
my %files = (FTKIT_LEVEL_HDF5_EVERY => '1 sets', FTKIT_CHECKPOINT_PERIOD => '3 calls',
    FTKIT_LEVEL_HDF5_ASYNCHRONOUS => 'false');
my $want = reference(4);

# a chain of ten jobs, each killed as a whole, each starting from the newest complete set
my $dir = scratch() . '/chain';
my $last = 0;
my $steady = 1;
for my $i (1 .. 10) {
    # killed in the program, or while a set is half written
    my $fault = $i % 2 ? 'app.mid:*:5:kill' : 'durable.written:*:2:kill';
    my $j = job(keep => $dir, env => \%files, fault => $fault);
    my ($set) = $j->{log} =~ /restored set (\d+) from files/;
    $steady = 0 if $i > 1 && (!$set || $set < $last);
    $last = $set // 0;
    diag("job $i: ", $j->{log}) if $i > 1 && !$set;
}
ok($steady, "ten jobs killed in a chain: the set they start from never goes back ($last)");
my $j = job(keep => $dir, env => \%files);
ok($j->{rc} == 0 && $j->{result} eq $want, '... and the eleventh finishes, bitwise')
    or diag($j->{log});
remove_tree($dir);

survives('all ranks killed: ftkit run relaunches', env => \%files, run => [], faults => 4,
    fault => 'app.mid:*:14:kill', like => qr/restored set 5 from files/);
survives('... from compressed files', run => [], faults => 4,
    env => { %files, FTKIT_LEVEL_HDF5_COMPRESS => 'deflate' },
    fault => 'app.mid:*:14:kill', like => qr/restored set 5 from files/);
my $killed = 0;
survives('mpirun itself is killed', env => \%files, run => [], faults => 0,
    solver => ['-d', '20', '-s', '60'], like => qr/restored set \d+ from files/,
    while => sub {
        my ($work) = @_;
        my $end = time() + 30;
        while (!$killed && time() < $end) {
            for my $p (-e "$work/default.ftkit/set-0000000004/manifest"
                ? glob('/proc/[0-9]*') : ()) {
                next if slurp("$p/comm") !~ /^(prterun|mpirun)/;
                next if slurp("$p/environ") !~ /\Q$work\E\b/;
                my ($pid) = $p =~ /(\d+)$/;
                $killed += kill('KILL', $pid);
            }
            select(undef, undef, undef, 0.01);
        }
    });
is($killed, 1, 'mpirun was killed');

# errors of the file system: told at the call, the older set holds, the run goes on
for my $point (qw(begin part.create part.write part.close part.fsync part.rename
    manifest.write manifest.fsync manifest.rename master.write)) {
    my $error = $point =~ /write/ ? 'ENOSPC' : 'EIO';
    survives("$error at h5.$point: the run goes on", env => \%files,
        fault => "h5.$point:0:3:$error",
        like => $error eq 'ENOSPC' ? qr/no space left/ : qr/storage I\/O error/);
}
survives('no set could be written for a while, then the job is lost', env => \%files,
    run => [], faults => 7, like => qr/restored set \d+ from files/,
    fault => 'h5.part.write:0:9:ENOSPC,h5.part.fsync:0:3:EIO,h5.part.fsync:0:4:EIO,'
        . 'app.mid:*:14:kill');
survives('the directory vanishes', env => \%files, faults => 0,
    solver => ['-d', '10', '-s', '60'], like => qr/storage I\/O error|no such/i, while => sub {
        my ($work) = @_;
        my $end = time() + 30;
        select(undef, undef, undef, 0.005)
            while (!-e "$work/default.ftkit/set-0000000003/manifest" && time() < $end);
        rename($work, "$work.away") or die;
        rename("$work.away/out", "$work/out");
        my $until = time() + 0.3; # some sets are due in this time
        select(undef, undef, undef, 0.05) while time() < $until;
        remove_tree("$work");
        rename("$work.away", $work) or die;
    });

# the event log says what came from where
my $events = scratch() . '/events';
survives('with an event log', env => { %files, FTKIT_REPORT_EVENTS => $events },
    fault => 'app.mid:1:9:kill');
like(slurp($events), qr/\d{4}-\d\d-\d\dT[\d:.]+Z \S+ \d+ .*repaired in .*back to set 3/,
    'the event log tells of the repair');

# nothing to start from is a fresh start; sets that cannot be used are not
$j = job(env => \%files, keep => "$dir-2");
is($j->{rc}, 0, 'a first run');
for my $part (glob("$dir-2/default.ftkit/set-*/part-00000.h5")) {
    open(my $f, '+<', $part) or die;
    seek($f, (-s $part) / 2, 0);
    print {$f} 'x' x 8192;
    close($f);
}
$j = job(env => \%files, keep => "$dir-2");
ok($j->{rc} != 0 && $j->{log} =~ /cannot be used and no other is complete/,
    'damaged sets are an error, not a fresh start') or diag($j->{log});

done_testing();
