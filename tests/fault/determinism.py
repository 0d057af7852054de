"""One SHA-256 per conversion, whatever the number of threads, the compiler, the optimisation or the machine."""
import os
import shlex
import subprocess
import tempfile

from models import CONVERSIONS, make_models, tree

THREADS = ('1', '2', '3', '7', '64')


def outputs(command, folder, threads):
    """Digests of all that the conversions write."""
    found = {}
    for conversion in CONVERSIONS:
        out = tempfile.mkdtemp(dir=folder)
        done = subprocess.run([*command, 'convert', os.path.join(folder, 'in', conversion.input), '-o',
                               os.path.join(out, conversion.output), *conversion.options, '--threads', threads,
                               '--quiet'], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit('%s: %s: exit status %d: %s' % (' '.join(command), conversion.name, done.returncode, done.stderr))
        found[conversion.name] = tree(out)
    return found


def check_determinism(programs):
    """`programs`: commands that run wconv. Prints a line for each; returns the number that differ from the first."""
    failed, first = 0, None
    with tempfile.TemporaryDirectory(prefix='wconv-fault-') as folder:
        make_models(os.path.join(folder, 'in'), 1)
        for program in programs:
            found = [outputs(shlex.split(program), folder, threads) for threads in THREADS]
            first = first or found[0]
            different = sorted({name for run in found for name in run if run[name] != first[name]})
            failed += bool(different)
            print('%s: %d conversions with %s threads: %s' %
                  (program, len(CONVERSIONS), ', '.join(THREADS), 'FAILED: %s differ' % different if different
                   else 'the same bytes'), flush=True)
    print('%d of %d programs give one SHA-256 per file' % (len(programs) - failed, len(programs)), flush=True)
    return failed
