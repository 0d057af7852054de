"""Asks wconv and the reference reader of each file whether it is sound, and compares what they read.

usage: python differential.py [--list] --wconv BIN FOLDER...
Needs torch, safetensors, gguf, onnx. The reference is chosen by content, then by name:
  safetensors   safe_open, every tensor                       gguf   GGUFReader, every tensor's data
  onnx          onnx.load, onnx.checker.check_model(path)     torch  torch.load(weights_only=True)
torch is also asked where no format is recognised. wconv is asked with `inspect --hash`, which reads all weights, and `verify`,
which reads all records. Where both read a file, names, dtypes, shapes and bytes of all tensors are compared.
Meant differences are kinds in differences.tsv: reader, outcome, a pattern for what wconv said and one for what the
reference said, the reason. Exit status 1: a difference of no kind, or wconv ends in another way than 0, 65 or 66.
"""
import argparse
import collections
import csv
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import resource
import struct
import subprocess
import tempfile

import gguf
import safetensors
import torch

import onnx_read
from onnx_read import onnx

SECONDS = 20
MEMORY = 4 << 30
NOT_MODELS = {".json", ".jsonl", ".md", ".py", ".tsv", ".txt"}
TORCH_NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
               torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint64: "U64", torch.uint32: "U32",
               torch.uint16: "U16", torch.uint8: "U8", torch.bool: "BOOL", torch.complex64: "C64", torch.complex128: "C128",
               torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.float8_e8m0fnu: "F8_E8M0",
               torch.float8_e4m3fnuz: "F8_E4M3FNUZ", torch.float8_e5m2fnuz: "F8_E5M2FNUZ"}

# A reader gives (name, dtype, shape, SHA-256) of each tensor; the name is None where the format has none for it.
Tensor = collections.namedtuple("Tensor", "name dtype shape sha256")


class Unreadable(Exception):
    """The reference accepts the file and then cannot read a tensor."""


def one_line(error):
    text = re.sub(r"\x1b\[\d*m", "", " ".join(str(error).split()))
    return f"{type(error).__name__}: {text.rpartition('WeightsUnpickler error: ')[2]}"


def digest(data):
    return hashlib.sha256(data).hexdigest()


def torch_bytes(tensor):
    dense = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return dense.reshape(-1).view(torch.uint8).numpy().tobytes()


def read_safetensors(path):
    with safetensors.safe_open(path, framework="pt") as file:
        for name in file.keys():
            part = file.get_slice(name)
            yield Tensor(name, part.get_dtype(), tuple(part.get_shape()), digest(torch_bytes(file.get_tensor(name))))


def read_gguf(path):
    for tensor in gguf.GGUFReader(path).tensors:
        shape = tuple(int(n) for n in reversed(tensor.shape))
        yield Tensor(tensor.name, tensor.tensor_type.name, shape, digest(tensor.data.tobytes()))


def read_onnx(path):
    onnx.load(path)
    onnx.checker.check_model(path)
    try:
        keys, named = onnx_read.of_model(pathlib.Path(path))
    except Exception as error:
        raise Unreadable(one_line(error)) from error
    for name, key in named.items():
        yield Tensor(name, *key)
    for key in (keys - collections.Counter(named.values())).elements():
        yield Tensor(None, *key)


def walk_torch(value, name, above):
    if isinstance(value, torch.Tensor):
        special = value.is_meta or value.is_quantized or value.layout != torch.strided
        dtype = TORCH_NAMES.get(value.dtype, str(value.dtype))
        yield Tensor(name, "meta" if value.is_meta else str(value.layout) if value.layout != torch.strided else dtype,
                     tuple(value.shape), None if special else digest(torch_bytes(value)))
    elif id(value) not in above and isinstance(value, (dict, list, tuple, set)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from walk_torch(item, f"{name}.{key}" if name else str(key), above | {id(value)})


def read_torch(path):
    with open(path, "rb") as file:  # of a path torch looks at the extension too
        yield from walk_torch(torch.load(file, weights_only=True, map_location="cpu"), "", frozenset())


READERS = {"safetensors": read_safetensors, "gguf": read_gguf, "onnx": read_onnx, "torch": read_torch}
EXTENSIONS = {".safetensors": "safetensors", ".gguf": "gguf", ".onnx": "onnx"}


def reader_of(path):
    """The reference for this file, or None."""
    with open(path, "rb") as file:
        head = file.read(512)
    if head.startswith(b"GGUF"):
        return "gguf"
    if head.startswith((b"PK\x03\x04", b"\x80")) or head[257:262] == b"ustar":
        return "torch"
    if len(head) > 8 and head[8:9] == b"{" and struct.unpack("<Q", head[:8])[0] <= os.path.getsize(path) - 8:
        return "safetensors"
    if path.suffix in NOT_MODELS:
        return None
    return EXTENSIONS.get(path.suffix, "torch")


def child(reader, path, results):
    """Runs in its own process: a hostile file may take its memory and its time, and can write nothing."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    mapped = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    torch.set_num_threads(1)
    try:
        results.send((list(READERS[reader](str(path))), ""))
    except Unreadable as error:
        results.send(([], f"accepts it, then {error}"))
    except BaseException as error:  # Rust panics are no Exception
        results.send((None, one_line(error)))


def ask_reference(reader, path):
    """(tensors or None, what it said)"""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=child, args=(reader, path, sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(SECONDS):
            return None, f"hang: no answer in {SECONDS} s"
        return receiver.recv()
    except EOFError:
        process.join()
        return None, f"crash: ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()


def run_wconv(wconv, *arguments):
    def limits():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    try:
        run = subprocess.run([wconv, "--json", "--threads", "1", *arguments], capture_output=True, timeout=SECONDS,
                             preexec_fn=limits, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, None, f"FAILED: no end in {SECONDS} s"
    if run.returncode not in (0, 1, 65, 66):
        return run.returncode, None, f"FAILED: exit {run.returncode}: {run.stderr.decode(errors='replace').strip()}"
    return run.returncode, json.loads(run.stdout), run.stderr.decode(errors="replace").strip()


def ask_wconv(wconv, path):
    """(tensors or None, what it said): the error, or the findings of a file that it reads."""
    code, document, text = run_wconv(wconv, "inspect", "--hash", str(path))
    if code != 0:
        return None, text
    tensors = [Tensor(t["name"], t["dtype"], tuple(t["shape"]), t.get("sha256")) for t in document["tensors"]]
    said = "; ".join(f"{f['code']}: {f['message']}" for f in document["findings"])
    code, document, text = run_wconv(wconv, "verify", str(path))
    if code != 0:
        return None, text or "; ".join(str(problem) for problem in document["problems"])
    return tensors, said


def compare(ours, theirs):
    """("", "") or what only wconv and only the reference has."""
    nameless = collections.Counter(t[1:] for t in theirs if not t.name)
    named = collections.Counter(t for t in theirs if t.name)
    rest = collections.Counter(ours) - named
    lacking = named - collections.Counter(ours)
    more = collections.Counter()
    for tensor in rest.elements():
        if nameless[tensor[1:]]:
            nameless[tensor[1:]] -= 1
        else:
            more[tensor] += 1
    lacking += collections.Counter({Tensor(None, *key): n for key, n in nameless.items()})

    def words(counter):
        return ", ".join(f"{t.name} {t.dtype} {list(t.shape)} {(t.sha256 or '-')[:8]}" for t in counter.elements())
    return words(more), words(lacking)


def judge(wconv, reader, path):
    """(outcome, what wconv said, what the reference said)"""
    ours, said = ask_wconv(wconv, path)
    theirs, reference_said = ask_reference(reader, path)
    if said.startswith("FAILED"):
        return "other-exit", said, reference_said
    if ours is None or theirs is None:
        outcome = {(False, False): "both-refuse", (True, False): "wconv-accepts", (False, True): "wconv-refuses"}
        return outcome[ours is not None, theirs is not None], said, reference_said
    more, lacking = compare(ours, theirs)
    if more or lacking:
        return "tensors-differ", f"has {more}; {said}", f"has {lacking}; {reference_said}"
    return "both-accept", said, reference_said


def kinds_of(path):
    with open(path, newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row and not row[0].startswith("#")]
    return [(reader, outcome, re.compile(ours), re.compile(theirs), reason) for reader, outcome, ours, theirs, reason in rows]


def kind_of(kinds, reader, outcome, said, reference_said):
    for index, (kind_reader, kind_outcome, ours, theirs, _) in enumerate(kinds):
        if (kind_reader, kind_outcome) == (reader, outcome) and ours.search(said) and theirs.search(reference_said):
            return index
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--wconv", required=True)
    parser.add_argument("--list", action="store_true", help="name the files of each kind, and what was said of them")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    wconv = os.path.abspath(options.wconv)
    tempfile.gettempdir()  # is found by writing, which the children cannot; torch asks for it before it looks at a tar
    kinds = kinds_of(pathlib.Path(__file__).with_name("differences.tsv"))
    counts, outcomes, explained = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    without = 0
    files = sorted(f.absolute() for folder in options.folders for f in folder.rglob("*") if f.is_file())
    for file in files:
        reader = reader_of(file)
        if reader is None:
            without += 1
            continue
        outcome, said, reference_said = judge(wconv, reader, file)
        counts[reader] += 1
        outcomes[reader, outcome] += 1
        outcomes[reader, "no-answer"] += reference_said.startswith(("hang:", "crash:"))
        if outcome not in ("both-accept", "both-refuse"):
            index = kind_of(kinds, reader, outcome, said, reference_said)
            explained[len(kinds) if index is None else index].append((reader, outcome, file, said, reference_said))
    if not counts:
        raise SystemExit("no model file in " + ", ".join(map(str, options.folders)))
    report(kinds, counts, outcomes, explained, options.list)
    unexplained = len(explained[len(kinds)])
    print(f"{len(files)} files, {without} of them no model files; {unexplained} differences unexplained")
    raise SystemExit(unexplained > 0)


def report(kinds, counts, outcomes, explained, with_files):
    print("reference    files  both accept  both refuse  differ  reference hangs or crashes")
    for reader in READERS:
        both = outcomes[reader, "both-accept"], outcomes[reader, "both-refuse"]
        differ = counts[reader] - sum(both)
        print(f"{reader:12} {counts[reader]:5} {both[0]:12} {both[1]:12} {differ:7} {outcomes[reader, 'no-answer']:11}")
    for index, rows in sorted(explained.items()):
        if index < len(kinds):
            print(f"{len(rows):4}  {kinds[index][0]}: {kinds[index][1]}: {kinds[index][4]}")
        for reader, outcome, file, said, reference_said in rows if with_files or index == len(kinds) else []:
            print(f"      {'UNEXPLAINED ' if index == len(kinds) else ''}{reader} {outcome} {file}\n"
                  f"        wconv: {said[:300]}\n        {reader}: {reference_said[:300]}")


if __name__ == "__main__":
    main()
