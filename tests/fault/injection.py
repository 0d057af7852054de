"""Makes every call that touches an output fail, write short, be interrupted, or be the last one before SIGKILL.

The old or the new whole file must be in place afterwards, the exit status and the message must say which, nothing may be
left beside it, and a further run must give the bytes of an undisturbed one.
"""
import collections
import concurrent.futures
import errno
import os
import shutil
import signal
import subprocess
import tempfile

from models import CONVERSIONS, make_models, temporaries, tree

MOVES = {'write', 'pwrite', 'copy_file_range'}
CHANGES = MOVES | {'open', 'mkdir', 'fallocate', 'ftruncate', 'fchmod', 'flock', 'fsync', 'rename', 'unlink', 'rmdir'}
INTERRUPTIBLE = MOVES | {'open', 'fallocate', 'ftruncate', 'flock', 'fsync', 'fstatvfs', 'close'}
# Calls without which there is no sound output: 0 would be a lie.
DECISIVE = MOVES | {'fallocate', 'ftruncate', 'fchmod', 'flock', 'fsync', 'rename'}

FAULTS = {
    'ENOSPC': (str(errno.ENOSPC), CHANGES),
    'EIO': (str(errno.EIO), None),  # every call
    'EINTR': (str(errno.EINTR), INTERRUPTIBLE),
    'short': ('short', MOVES),
    'unsupported': (str(errno.EOPNOTSUPP), {'fallocate', 'copy_file_range'}),  # as NFS, FUSE and overlays do
    'no renameat2': (str(errno.EINVAL), {'rename'}),
    'kill before': ('kill', None),
    'kill after': ('killed-after', None),
}


# A file system that cannot do what has another way, and what the C library hides: the output is whole all the same.
HARMLESS = {'EINTR', 'short', 'unsupported', 'no renameat2'}


class Case:
    """One conversion into an empty folder, or over an earlier output."""

    def __init__(self, tools, work, conversion, replace):
        self.tools, self.conversion, self.replace = tools, conversion, replace
        self.name = '%s %s' % (conversion.name, 'replaced' if replace else 'new')
        self.start = os.path.join(work, self.name.replace(' ', '-'))
        self.input = os.path.join(work, 'new', conversion.input)
        os.mkdir(self.start)
        if replace:
            self.convert(self.start, os.path.join(work, 'old', conversion.input))
        self.old = tree(self.start)
        self.calls, self.new = self.undisturbed()
        self.last_rename = max(i for i, call in enumerate(self.calls) if call == 'rename')

    def problem_of_order(self):
        """What a power cut could lose: all files are synced between the last write and the first rename, and the
        folder after the last one."""
        last_write = max(i for i, call in enumerate(self.calls) if call in MOVES)
        first_rename = self.calls.index('rename')
        synced = self.calls[last_write:first_rename].count('fsync')
        files = len(self.new) if self.conversion.name == 'folder' else self.calls.count('rename')
        if last_write > first_rename or synced < files:
            return '%d of %d files are synced before the first is renamed' % (synced, files)
        return '' if 'fsync' in self.calls[self.last_rename:] else 'the folder is not synced after the renames'

    def command(self, folder, source, force):
        force = ['--force'] if force else []
        return [self.tools.wconv, 'convert', source, '-o', os.path.join(folder, self.conversion.output), '--quiet',
                '--threads', '1'] + self.conversion.options + force

    def convert(self, folder, source, force=False, environment=None):
        environment = dict(os.environ, **environment) if environment else None
        return subprocess.run(self.command(folder, source, force), env=environment, capture_output=True, text=True)

    def faulty(self, folder, **settings):
        environment = {'LD_PRELOAD': self.tools.shim, 'WCONV_FAULT_FOLDER': folder, **settings}
        return self.convert(folder, self.input, self.replace, environment)

    def undisturbed(self):
        folder = self.fresh()
        log = os.path.join(folder + '.log')
        open(log, 'w').close()
        done = self.faulty(folder, WCONV_FAULT_LOG=log)
        assert done.returncode == 0, '%s: %s' % (self.name, done.stderr)
        with open(log) as file:
            calls = file.read().split()
        os.unlink(log)
        new = tree(folder)
        shutil.rmtree(folder)
        return calls, new

    def fresh(self):
        folder = tempfile.mkdtemp(prefix='run-', dir=os.path.dirname(self.start))
        shutil.copytree(self.start, folder, dirs_exist_ok=True)
        return folder

    def old_or_new(self, found):
        """A folder changes as a whole, files each for itself."""
        if self.conversion.name == 'folder':
            return found in (self.old, self.new)
        return all(found.get(path) in (self.old.get(path), self.new.get(path))
                   for path in set(found) | set(self.old) | set(self.new))

    def problem(self, index, fault):
        """What is wrong after a fault at call `index` ('*': at every call); empty: nothing."""
        folder = self.fresh()
        try:
            done = self.faulty(folder, WCONV_FAULT='%s:%s' % (index, FAULTS[fault][0]))
            call = self.calls[index] if index != '*' else ''
            removing = fault not in HARMLESS and (
                call in ('unlink', 'rmdir') or (call == 'open' and index > self.last_rename))
            return self.judge(folder, call, fault, done, removing) or self.problem_of_rerun(folder)
        finally:
            shutil.rmtree(folder)

    def judge(self, folder, call, fault, done, removing):
        left = temporaries(folder)
        found = {path: digest for path, digest in tree(folder).items() if path.split('/')[0] not in left}
        if not self.old_or_new(found):
            return 'neither the old nor the new output: %s' % sorted(found)
        if fault.startswith('kill'):
            killed = done.returncode == -signal.SIGKILL
            return '' if killed and len(left) <= len(self.new) + 1 else 'status %d, left: %s' % (done.returncode, left)
        if done.returncode == 0:
            if fault not in HARMLESS and call in DECISIVE:
                return 'exit status 0'
            sound = found == self.new and not done.stderr and (not left or removing)
            return '' if sound else 'not whole: %s %s' % (left, done.stderr)
        if fault in HARMLESS or done.returncode != 74:
            return 'exit status %d: %s' % (done.returncode, done.stderr)
        if len(done.stderr.splitlines()) != 1 or not done.stderr.startswith('wconv: error: '):
            return 'the message is no single line: %r' % done.stderr
        if left and not removing:
            return 'left: %s' % left
        return ''

    def problem_of_rerun(self, folder):
        done = self.convert(folder, self.input, force=bool(tree(folder)))
        if done.returncode != 0:
            return 'the next run fails: %s' % done.stderr
        if tree(folder) != self.new or temporaries(folder):
            return 'the next run gives other files: %s' % sorted(tree(folder))
        return ''

    def points(self, short):
        faults = FAULTS if not short else ('EIO', 'short', 'kill after') if self.replace else (
            'ENOSPC', 'EINTR', 'unsupported', 'no renameat2')
        for fault in faults:
            if fault == 'no renameat2' and self.replace:
                continue  # a plain rename has no other way
            suits = FAULTS[fault][1]
            if fault in ('EINTR', 'short'):
                yield '*', fault
            for index, call in enumerate(self.calls):
                if suits is None or call in suits:
                    yield index, fault


def check_injection(tools, work, short):
    """Prints the figures; returns the number of failures."""
    make_models(os.path.join(work, 'new'), 1)
    make_models(os.path.join(work, 'old'), 100)
    cases = [Case(tools, work, conversion, replace) for conversion in CONVERSIONS for replace in (False, True)]
    total, failed = 0, 0
    by_fault = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for case in cases:
            if case.problem_of_order():
                print('  FAILED %s: %s' % (case.name, case.problem_of_order()))
                failed += 1
            points = list(case.points(short))[::3 if short else 1]
            problems = list(pool.map(lambda point: case.problem(*point), points))
            sound = sum(not problem for problem in problems)
            print('%-24s %3d calls, %4d of %4d injection points sound' %
                  (case.name, len(case.calls), sound, len(points)), flush=True)
            for (index, fault), problem in zip(points, problems):
                by_fault[fault] += 1
                if problem:
                    call = case.calls[index] if index != '*' else 'every call'
                    print('  FAILED %s at %s (%s): %s' % (fault, index, call, problem))
            total, failed = total + len(points), failed + len(points) - sound
    print(', '.join('%s: %d' % item for item in by_fault.items()))
    print('%d of %d injection points leave the old or the new file' % (total - failed, total), flush=True)
    return failed
