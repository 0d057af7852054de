"""Places and limits that a conversion may meet: inputs that change, several runs, odd outputs, resource limits."""
import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections import Counter

from models import CONVERSIONS, make_models, temporaries, tree, write, write_shards, write_sparse

MIB = 1 << 20


class Place:
    """A folder with small models, and a way to run wconv in it."""

    def __init__(self, tools, folder):
        self.tools, self.folder, self.out = tools, folder, os.path.join(folder, 'out')
        make_models(os.path.join(folder, 'in'), 1)
        os.mkdir(self.out)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def start(self, *arguments, limits=(), user=None):
        def set_limits():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))
            if user:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
        program = self.tools.wconv
        if user:  # who may not enter the folder of the build
            program = shutil.copy(program, self.path('wconv'))
        return subprocess.Popen([program, *arguments, '--quiet'], cwd=self.out, preexec_fn=set_limits,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments, **settings):
        process = self.start(*arguments, **settings)
        process.stdout, process.stderr = process.communicate()
        return process

    def model(self):
        return self.path('in', 'model.safetensors')


def expect(done, status, *words):
    assert done.returncode == status, 'exit status %d, not %d: %s' % (done.returncode, status, done.stderr)
    if status:
        assert len(done.stderr.splitlines()) == 1, 'no single line: %r' % done.stderr
    for word in words:
        assert word in done.stderr, '%r is not in %r' % (word, done.stderr)


def expect_nothing(place):
    assert os.listdir(place.out) == [], 'left: %s' % os.listdir(place.out)


def while_running(place, change, *options):
    """Changes a large input as soon as the output's temporary is there and has bytes on the disk."""
    source = place.path('large.safetensors')
    write_sparse(source, 768 * MIB)
    process = place.start('convert', source, '-o', 'out.safetensors', '--threads', '1', *options)
    temporary = place.path('out', '.out.safetensors.wconv-tmp')
    while process.poll() is None and not os.path.exists(temporary):
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGSTOP)
    assert process.poll() is None, 'it ended before its input could be changed'
    change(source)
    os.kill(process.pid, signal.SIGCONT)
    process.stdout, process.stderr = process.communicate()
    expect(process, 74, 'large.safetensors', 'during the run')
    expect_nothing(place)


def input_shrinks(place):
    for options in ((), ('--dtype', 'f16'), ('--no-manifest',)):
        while_running(place, lambda path: os.truncate(path, 300 * MIB), *options)


def input_is_written_to(place):
    def change(path):
        with open(path, 'r+b') as file:
            file.seek(-4, os.SEEK_END)
            file.write(b'\1\2\3\4')
    for options in ((), ('--dtype', 'f16'), ('--no-manifest',)):
        while_running(place, change, *options)


def input_grows(place):
    while_running(place, lambda path: os.truncate(path, 900 * MIB))


def shard_is_replaced(place):
    """With few descriptors a shard is opened again, and must be the same file."""
    shards = place.path('shards')
    write_shards(shards, 200)
    process = place.start('convert', shards, '-o', 'out.safetensors', limits=[(resource.RLIMIT_NOFILE, 32)])
    temporary = place.path('out', '.out.safetensors.wconv-tmp')
    while process.poll() is None and not os.path.exists(temporary):
        pass
    os.kill(process.pid, signal.SIGSTOP)
    last = os.path.join(shards, 'model-00200-of-00200.safetensors')
    shutil.copy(last, last + '.new')
    os.replace(last + '.new', last)
    os.kill(process.pid, signal.SIGCONT)
    process.stdout, process.stderr = process.communicate()
    expect(process, 74, 'was replaced during the run')
    expect_nothing(place)


def runs_at_once(place, count):
    for conversion in CONVERSIONS:
        source = place.path('in', conversion.input)
        runs = [place.start('convert', source, '-o', conversion.output, *conversion.options) for _ in range(count)]
        ends = []
        for run in runs:
            run.stdout, run.stderr = run.communicate()
            ends.append(run.returncode)
            if run.returncode:
                assert len(run.stderr.splitlines()) == 1, run.stderr
        found, counts = tree(place.out), Counter(ends)
        assert counts[0] == 1 and set(counts) <= {0, 2, 75}, '%s: statuses %s' % (conversion.name, dict(counts))
        clean(place)
        expect(place.run('convert', source, '-o', conversion.output, *conversion.options), 0)
        assert found == tree(place.out), '%s: other bytes' % conversion.name
        clean(place)


def two_runs(place):
    runs_at_once(place, 2)


def sixteen_runs(place):
    runs_at_once(place, 16)


def clean(place):
    shutil.rmtree(place.out)
    os.mkdir(place.out)


def read_only_folder(place):
    nobody = 65534 if os.getuid() == 0 else None
    os.chmod(place.folder, 0o755)
    os.chmod(place.out, 0o555)
    expect(place.run('convert', place.model(), '-o', 'out.pth', user=nobody), 74, 'out.pth', 'Permission denied')
    os.chmod(place.out, 0o755)
    expect_nothing(place)


def output_is_a_folder(place):
    os.mkdir(place.path('out', 'out.pth'))
    expect(place.run('convert', place.model(), '-o', 'out.pth', '--force'), 2, 'is a folder')
    assert os.listdir(place.out) == ['out.pth']


def output_is_a_link(place):
    write(place.path('target'), b'precious')
    os.symlink('../target', place.path('out', 'out.pth'))
    expect(place.run('convert', place.model(), '-o', 'out.pth'), 2, '--force')
    expect(place.run('convert', place.model(), '-o', 'out.pth', '--force'), 0)
    with open(place.path('target'), 'rb') as file:
        assert file.read() == b'precious', 'it wrote through the link'
    assert stat.S_ISREG(os.lstat(place.path('out', 'out.pth')).st_mode)


def output_is_the_input(place):
    source = place.path('out', 'model.safetensors')
    shutil.copy(place.model(), source)
    os.link(source, place.path('out', 'other-name.safetensors'))
    before = tree(place.out)
    expect(place.run('convert', source, '-o', source, '--dtype', 'f16'), 2, '--force')
    assert tree(place.out) == before
    expect(place.run('convert', place.model(), '-o', place.path('expected.safetensors'), '--dtype', 'f16'), 0)
    expect(place.run('convert', source, '-o', source, '--dtype', 'f16', '--force'), 0)
    after = tree(place.out)
    assert after['model.safetensors'] == tree(place.folder)['expected.safetensors']
    assert after['other-name.safetensors'] == before['other-name.safetensors'], 'it wrote into the input'


def little_memory(place, size):
    source = place.path('large.safetensors')
    write_sparse(source, size)
    for options in (['-o', 'out.pth'], ['-o', 'out.safetensors', '--dtype', 'f16', '--threads', '64']):
        expect(place.run('convert', source, *options, '--no-manifest', limits=[(resource.RLIMIT_AS, 256 * MIB)]), 0)
        clean(place)


def few_descriptors(place):
    shards = place.path('shards')
    write_shards(shards, 1000)
    limit = [(resource.RLIMIT_NOFILE, 32)]
    expect(place.run('convert', shards, '-o', 'free', '--shard-size', '300'), 0)
    for threads in ('1', '64'):
        expect(place.run('convert', shards, '-o', 'out', '--shard-size', '300', '--threads', threads, limits=limit), 0)
        assert tree(place.path('out', 'out')) == tree(place.path('out', 'free'))
        shutil.rmtree(place.path('out', 'out'))
    expect(place.run('verify', shards, 'free', limits=limit), 0)
    clean(place)
    # Shards beside each other hold a lock each.
    expect(place.run('convert', shards, '-o', 'out.safetensors', '--shard-size', '300', limits=limit), 74, 'open files')
    expect_nothing(place)


def file_size_limit(place):
    for conversion in CONVERSIONS:
        done = place.run('convert', place.path('in', conversion.input), '-o', conversion.output, *conversion.options,
                         limits=[(resource.RLIMIT_FSIZE, 4096)])
        expect(done, 74, 'File too large')
        expect_nothing(place)


SITUATIONS = [input_shrinks, input_is_written_to, input_grows, shard_is_replaced, two_runs, sixteen_runs,
              read_only_folder, output_is_a_folder, output_is_a_link, output_is_the_input, few_descriptors,
              file_size_limit]


def check_situations(tools, short):
    """Prints one line for each; returns the number of failures."""
    gib = 1 if short else 8

    def model_of_many_gib(place):
        little_memory(place, gib * 1024 * MIB)
    model_of_many_gib.__name__ = '%d_gib_in_256_mib_of_address_space' % gib
    failed, checks = 0, SITUATIONS + [model_of_many_gib]
    for check in checks:
        folder, start, problem = tempfile.mkdtemp(prefix='wconv-fault-'), time.monotonic(), ''
        try:
            check(Place(tools, folder))
        except AssertionError as error:
            failed, problem = failed + 1, 'FAILED: %s' % error
        finally:
            shutil.rmtree(folder)
        print('%-44s %4.1f s  %s' % (check.__name__.replace('_', ' '), time.monotonic() - start, problem or 'holds'),
              flush=True)
    print('%d of %d situations end as documented' % (len(checks) - failed, len(checks)), flush=True)
    return failed
