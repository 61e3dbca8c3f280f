# The programs of a campaign: what each is able to do, and its fault points.
#
# SPDX-License-Identifier: BSD-3-Clause
package Programs;
use strict;
use warnings;
use Exporter 'import';
use FtkitLog ();

our @EXPORT_OK = qw(find arguments names of_kind script_kinds);

# A program has a name, and kinds of jobs that it is for:
#   all      without the message log: all ranks roll back
#   log      with the message log
#   apart    with lines apart
#   refuse, relaxed  values of log.determinants for programs whose messages depend on no choice of MPI
#   replicas computes the same in each plane
#   shrink   the same result on fewer ranks
#   team     needs one team of all ranks
#   shmem    of OpenSHMEM: the library turns the log on, with one team
# path: below build/; args; steps: calls of a loop (visits of app.step); points: its own fault points (with
# =N those of which a rank passes so few);
# n: numbers of ranks; quiet: it has no app.* points; names: it names its result itself;
# errors: behind its result it says how many calls had an error;
# one_node: its result is that of ranks on one node; stops: it stops when a set cannot be written; outside: of
# a library without fault points, so faults come from outside; length: its option for the number of steps,
# where a job may have more of them.
my %table;

sub add {
    my ($name, $kinds, %o) = @_;
    $table{$name} = { name => $name, args => [], steps => 30, n => [4], points => [], %o,
        kinds => { map { $_ => 1 } split(' ', $kinds) } };
    return;
}

# The examples, with fault points of the library only.
add('heat2d', 'all shrink', path => 'flt-examples/heat2d', args => ['-n', '61x47', '-s', 60, '-d', 1],
    n => [2, 4, 6], quiet => 1, steps => 60, length => '-s');
add('cg', 'all', path => 'flt-examples/cg', args => ['-n', 12, '-d', 2], quiet => 1);
add('solver', 'all log', path => 'mpi/solver', n => [2, 4, 6], length => '-s', points => [qw(app.coll app.compute)]);
add('solver-blocks', 'all', path => 'mpi/solver', args => ['-b', 6, '-w', 30], n => [4],
    points => [qw(app.coll app.compute)]);
add("solver-$_", 'all', path => 'mpi/solver', args => ['-k', $_], points => [qw(app.coll)])
    for qw(p2p nb coll derived);

for my $p (FtkitLog::programs(), FtkitLog::call_programs(), FtkitLog::ahead_programs()) {
    my $title = FtkitLog::title($p);
    my $name = $title =~ s/ -m /-/r;
    my @kinds = 'log';
    push(@kinds, 'apart') if $title !~ /-m wildcard$/;
    push(@kinds, 'refuse') if $title =~ /^(?:wavefront|transpose)$/;
    push(@kinds, 'relaxed')
        if $title =~ /^(?:irregular -m ordered|collect|calls -m (?:blocking|nonblocking|persistent|cancel))$/;
    push(@kinds, 'replicas') if $title =~ /^(?:wavefront|transpose|halo3d|comms|collect|inters)$|-m halo$/;
    add($name, "@kinds", path => "mpi/$p->{name}", args => $p->{args} // [], steps => $p->{steps},
        length => '-n', $p->{fixed} ? (n => [4, 6]) : (), messages => $p->{messages} // 40);
    # the same, where all ranks roll back
    add("$name-all", 'all', path => "mpi/$p->{name}", args => ['-r', @{ $p->{args} // [] }],
        steps => $p->{steps}, length => '-n') if grep { $_ eq $p } FtkitLog::programs();
}
add("relay-$_", 'log relaxed', path => 'mpi/relay', args => ['-m', $_], steps => 40, messages => 200)
    for qw(receive posted probe);
add('decide', 'log', path => 'mpi/decide', steps => 40, messages => 120);
add('twins', 'replicas', path => 'mpi/twins', args => ['-n', 60], steps => 60, length => '-n');
for my $binding (qw(mpifh mpi f08)) {
    add("fortran-$binding-$_->{args}[1]", 'log apart', path => "ftests/calls_$binding", args => $_->{args},
        steps => $_->{steps}, messages => $_->{messages}, stops => 1,
        one_node => $_->{args}[1] eq 'comms') for grep { $_->{ordered} && $_->{args}[1] ne 'wildcard' }
        FtkitLog::fortran_programs($binding);
}
add("windows-$_", 'log apart', path => 'mpi/windows', args => ['-m', $_], steps => 40,
    points => [qw(win.sent win.applied), $_ eq 'pscw' ? 'win.wait' : ()]) for qw(fence pscw test gets);
add("windows-$_", 'log team', path => 'mpi/windows', args => ['-m', $_], steps => 40,
    points => [qw(win.flush win.applied), $_ eq 'locks' ? 'win.unlock' : ()]) for qw(counter locks kept);
add("dynamic-$_", 'log apart', path => 'mpi/dynamic', args => ['-m', $_], steps => 40,
    points => [qw(win.sent win.applied win.attached=9)]) for qw(fence pscw);
add('dynamic-locks', 'log team', path => 'mpi/dynamic', args => ['-m', 'locks'], steps => 40,
    points => [qw(win.locked win.unlock win.applied win.attached=9)]);
add("winloop-$_", $_ eq 'locks' ? 'log team' : 'log', path => 'mpi/winloop', args => ['-m', $_], steps => 40,
    points => [qw(win.applied win.made=13)]) for qw(fence pscw locks);
add("direct-$_", 'log team', path => 'mpi/direct', args => ['-m', $_], steps => 40,
    points => [qw(win.direct win.word win.applied win.map=3 win.offer=3), /fence/ ? 'win.meet' : ()])
    for qw(fence pscw locks spin made-fence made-pscw made-locks);
add("units-$_", 'log apart', path => 'mpi/units', args => ['-m', $_], steps => 40,
    points => [qw(units.help=9 units.reply=9 units.own units.give)]) for qw(jacobi wave hydro);
add('latecomer', 'log team', path => 'mpi/latecomer', args => ['-n', 20], steps => 20, points => ['win.meet']);
# a loss before the first set ends the job
add("shared-$_", 'log team', path => 'mpi/shared', args => ['-m', $_], steps => 40, one_node => 1)
    for qw(halo mixed alone flag);
add('steal', 'log team', path => 'mpi/steal', steps => 40, points => [qw(win.direct win.word win.flush)]);
# files that the program writes, in each set
add('files-callbacks', 'all log apart', path => 'mpi/files', args => ['callbacks'], quiet => 1, errors => 1,
    points => [qw(app.step files.write files.scanned files.take archive.write files.plain.create
        files.plain.fsync files.plain.dirsync)]);
add('files-calls', 'all', path => 'mpi/files', args => ['calls'], quiet => 1, errors => 1,
    points => [qw(app.step files.scanned files.take archive.write files.plain.write files.plain.dirsync)]);
add("shmem-$_", 'shmem', path => "shmem-tests/$_", args => [400], steps => 400, quiet => 1, names => 1,
    outside => 1) for qw(jacobi pieces ptr sort);

# Random programs of tests/mpi/script.c: kinds of operations that come in turns.
my %script_kinds = (together => [ '', 'ahead', 'cancel', 'wild,ahead,middle', 'cancel,wild,anytag,p2p,ahead',
        'cancel,wild,collective,persistent,wait', 'wait' ],
    apart => [ '', 'wait', 'wild', 'collective,persistent' ]);

sub script_kinds { my ($how) = @_; return @{ $script_kinds{$how} } }

# A program by its name; script:SEED:WORDS is one of the random ones.
sub find {
    my ($name) = @_;
    my ($seed, $words) = $name =~ /^script:(\d+):(\S+)$/ or return $table{$name};
    my $apart = $words =~ /^apart/;
    return { name => $name, path => 'mpi/script', steps => 30, n => [ $apart ? 4 : 3, 4 ],
        args => ['-m', $words, '-s', $seed, '-n', 30], length => '-n', points => ['app.op'],
        kinds => { $apart ? (apart => 1) : (log => 1, replicas => 1) }, messages => 60 };
}

# The arguments of the program of a case, which may have a number of steps of its own.
sub arguments {
    my ($c) = @_;
    my $p = find($c->{program});
    return (@{ $p->{args} }, $c->{steps} ? ($p->{length}, $c->{steps}) : ());
}

sub names { return sort keys %table }

sub of_kind { my ($kind) = @_; return grep { $table{$_}{kinds}{$kind} } names() }

1;
