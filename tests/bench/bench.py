#!/usr/bin/env python3
"""Times wconv against cp, cat and (with --python) torch, and prints the ratios as a table.

usage: tests/bench/bench.py [--wconv build/release/wconv] [--folder FOLDER] [--gib N] [--rounds N] [--python PYTHON]
                            [--only conversions|reading|onnx|compressed|python_way ...]

FOLDER (default: build/bench) needs room for eleven files of N GiB (default 2). PYTHON is one with torch and safetensors.
Each row runs A and B in turn, `rounds` times; the ratio is that of their fastest runs, for what disturbs a run (a virtual
machine's memory, most of all) only ever makes it slower. Files are in the page cache when they are read; both sides end
with the output synced to disk. Peak RSS is that of wconv alone.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import time


def run(command, allowed=(0,)):
    """Seconds and peak RSS in MiB."""
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in allowed:
        sys.exit(f"{command}: exit {process.returncode}: {error.decode(errors='replace')}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def random_block(dtype):
    """A million weights in [-2, 2), to be repeated, which no step here can profit from."""
    generator = random.Random(1)
    values = 1 << 20
    if dtype == "F32":
        return struct.pack(f"<{values}f", *(generator.uniform(-2, 2) for _ in range(values)))
    return b"".join(struct.pack("<f", generator.uniform(-2, 2))[2:] for _ in range(values))  # the upper halves of F32


def write_safetensors(path, dtype, tensors, bytes_each, shape):
    block = random_block(dtype)
    header = {f"model.layers.{i}.weight": {"dtype": dtype, "shape": shape, "data_offsets": [i * bytes_each, (i + 1) * bytes_each]}
              for i in range(tensors)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(tensors * bytes_each // len(block)):
            file.write(block)
        os.fsync(file.fileno())


def varint(number):
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def field(number, value):
    """A field of a protobuf message: an integer, or text or a message with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def write_onnx(path, tensors, rows, columns, data=None):
    """F32 weights in the file itself or, at `data`, beside it; each is the input of a node. Numbers: onnx.proto."""
    each = 4 * rows * columns
    block = random_block("F32")
    nodes, heads, outputs = b"", [], b""
    for i in range(tensors):
        nodes += field(1, field(1, f"w{i}") + field(2, f"y{i}") + field(4, "Identity"))
        shape = b"".join(field(1, field(1, size)) for size in (rows, columns))
        outputs += field(12, field(1, f"y{i}") + field(2, field(1, field(1, 1) + field(2, shape))))
        tensor = field(1, rows) + field(1, columns) + field(2, 1) + field(8, f"w{i}")
        if data:
            for key, value in (("location", data.name), ("offset", str(i * each)), ("length", str(each))):
                tensor += field(13, field(1, key) + field(2, value))
            heads.append(field(5, tensor + field(14, 1)))
        else:
            tensor += varint(9 << 3 | 2) + varint(each)
            heads.append(varint(5 << 3 | 2) + varint(len(tensor) + each) + tensor)
    graph_bytes = sum(len(head) for head in heads) + (0 if data else tensors * each)
    rest = field(2, "g") + outputs
    with open(path, "wb") as file:
        file.write(field(1, 8) + varint(7 << 3 | 2) + varint(len(nodes) + graph_bytes + len(rest)) + nodes)
        for head in heads:
            file.write(head)
            if not data:
                file.write(block * (each // len(block)))
        file.write(rest + field(8, field(2, 17)))
        os.fsync(file.fileno())
    if data:
        with open(data, "wb") as file:
            for _ in range(tensors * each // len(block)):
                file.write(block)
            os.fsync(file.fileno())


def write_many_tensors(path, count):
    header = {f"model.layers.{i // 10}.block.{i % 10}.weight": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
              for i in range(count)}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(4 * count))


def write_inputs(folder, size):
    each = 32 << 20
    write_safetensors(folder / "f32.safetensors", "F32", size // each, each, [4096, 2048])
    write_safetensors(folder / "bf16.safetensors", "BF16", size // each, each, [4096, 4096])
    write_many_tensors(folder / "many.safetensors", 100_000)
    # Protobuf ends at 2 GiB: 1.9 GB in one file, three times as much beside one.
    write_onnx(folder / "one.onnx", int(0.91 * size) // each, 4096, 2048)
    write_onnx(folder / "external.onnx", 3 * size // each, 4096, 2048, folder / "external.data")


class Bench:
    def __init__(self, arguments):
        self.wconv = os.path.abspath(arguments.wconv)
        self.folder = pathlib.Path(arguments.folder)
        self.rounds = arguments.rounds
        self.python = arguments.python

    def clear(self):
        for path in self.folder.glob("out*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        os.sync()

    def row(self, what, ours, theirs, target="", peer="cp"):
        theirs_took, times, memory = [], [], []
        for _ in range(self.rounds):
            self.clear()
            their_time, _ = run(theirs)
            self.clear()
            our_time, rss = run(ours)
            theirs_took.append(their_time)
            times.append(our_time)
            memory.append(rss)
        self.clear()
        print(f"| {what} | {peer} | {min(times) / min(theirs_took):.2f} | {target} | {min(times):.2f} | {max(memory):.0f} |",
              flush=True)

    def copy(self, source):
        return ["sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", self.folder / source, self.folder / "out.copy"]

    def inspect(self, source):
        inspect = [self.wconv, "inspect", self.folder / source]
        gap = statistics.median(run(inspect)[0] for _ in range(9)) - statistics.median(
            run([self.wconv, "--version"])[0] for _ in range(9))
        print(f"| inspect {source} | wconv --version | +{1000 * gap:.1f} ms | +20 ms | | |", flush=True)

    def convert(self, source, target, *options):
        return [self.wconv, "convert", self.folder / source, "-o", self.folder / target, *options]

    def header(self):
        print("| wconv | against | ratio | at most | seconds | peak RSS, MiB |\n| --- | --- | --- | --- | --- | --- |")

    def conversions(self):
        for source, target in [("f32.safetensors", "out.safetensors"), ("f32.safetensors", "out.gguf"),
                               ("f32.safetensors", "out.pth"), ("f32.pth", "out.safetensors")]:
            name = f"{source.split('.')[1]} → {target.split('.')[1]}"
            self.row(f"{name}, --no-manifest", self.convert(source, target, "--no-manifest"), self.copy(source), "1.15")
            self.row(f"{name}, all digests", self.convert(source, target), self.copy(source), "1.4")
        self.row("BF16 → F16, --no-manifest", self.convert("bf16.safetensors", "out.safetensors", "--no-manifest", "--dtype", "f16"),
                 self.copy("bf16.safetensors"), "1.3")
        self.row("F32 → BF16, --no-manifest", self.convert("f32.safetensors", "out.safetensors", "--no-manifest", "--dtype", "bf16"),
                 self.copy("f32.safetensors"), "1.5")

    def reading(self):
        a, b = self.folder / "f32.safetensors", self.folder / "f32.pth"
        self.row("verify, two files", [self.wconv, "verify", a, b], ["cat", a, b], "2", "cat")
        for source in ["f32.safetensors", "f32.pth"]:
            self.inspect(source)
        seconds, rss = run([self.wconv, "inspect", self.folder / "many.safetensors"])
        print(f"| inspect of 100,000 tensors | | | 1 s, 50 MiB | {seconds:.2f} | {rss:.0f} |", flush=True)

    def onnx(self):
        for source, copied, where in [("one.onnx", "one.onnx", "one file"), ("external.onnx", "external.data", "external data")]:
            size = (self.folder / copied).stat().st_size / 1e9
            for kind, options in [("--no-manifest", ["--no-manifest"]), ("all digests", [])]:
                self.row(f"ONNX F32 → F16, {size:.1f} GB, {where}, {kind}", self.convert(source, "out.onnx", "--dtype", "f16", *options),
                         self.copy(copied), "1.5")
            self.inspect(source)

    def compressed(self):
        """Half of the BF16 weights."""
        plain, frames, stream = (self.folder / name for name in ("half.safetensors", "frames.safetensors.zst", "stream.safetensors.zst"))
        half = ["--include", "model.layers.[0-9].weight", "--include", "model.layers.[12][0-9].weight", "--include", "model.layers.3[01].weight"]
        run([self.wconv, "convert", self.folder / "bf16.safetensors", "-o", plain, "--no-manifest", "--force", *half])
        run([self.wconv, "convert", plain, "-o", frames, "--no-manifest", "--force"])
        run(["zstd", "-q", "-f", plain, "-o", stream])
        run(["cat", plain, frames, stream])
        unpack = ["sh", "-c", 'zstd -q -d "$1" -o "$2" && sync "$2"', "sh"]
        for packed, kind in [(frames, "seekable"), (stream, "one frame")]:
            self.row(f"verify, .zst of 1 GiB, {kind}", [self.wconv, "verify", packed],
                     ["sh", "-c", 'zstd -q -d -c "$1" >/dev/null', "sh", packed], "1.11", "zstd -d -c")
            self.row(f".zst → safetensors, {kind}, --no-manifest", [self.wconv, "convert", packed, "-o", self.folder / "out.safetensors", "--no-manifest"],
                     [*unpack, packed, self.folder / "out.peer"], "1.11", "zstd -d")
        self.row("safetensors → .zst, --no-manifest", [self.wconv, "convert", plain, "-o", self.folder / "out.safetensors.zst", "--no-manifest"],
                 ["sh", "-c", 'zstd -q -T0 "$1" -o "$2" && sync "$2"', "sh", plain, self.folder / "out.peer"], "", "zstd -T0")

    def python_way(self):
        code = ("import sys, torch; from safetensors.torch import save_file; "
                "save_file(torch.load(sys.argv[1], weights_only=True), sys.argv[2])")
        ours = self.convert("f32.pth", "out.safetensors", "--no-manifest")
        theirs = [self.python, "-c", code, self.folder / "f32.pth", self.folder / "out.peer"]
        self.row("pth → safetensors, --no-manifest", ours, theirs, "", "torch.load + save_file")
        self.clear()
        print(f"\npeak RSS of torch.load + save_file: {run(theirs)[1]:.0f} MiB")
        self.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wconv", default="build/release/wconv")
    parser.add_argument("--folder", default="build/bench")
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--python")
    parser.add_argument("--only", action="append", choices=["conversions", "reading", "onnx", "compressed", "python_way"])
    arguments = parser.parse_args()
    bench = Bench(arguments)
    bench.folder.mkdir(parents=True, exist_ok=True)
    # In a process of its own: a child begins with its parent's peak RSS, and this one is to stay small.
    maker = multiprocessing.Process(target=write_inputs, args=(bench.folder, int(arguments.gib * (1 << 30))))
    maker.start()
    maker.join()
    run(bench.convert("f32.safetensors", "f32.pth", "--no-manifest", "--force"))
    run(["cat", *bench.folder.glob("*.*")])
    bench.header()
    parts = arguments.only or ["conversions", "reading", "onnx", "compressed", "python_way"]
    for part in parts:
        if part == "compressed" and not shutil.which("zstd") or part == "python_way" and not arguments.python:
            print(f"{part}: left out, for its peer is not there", file=sys.stderr)
        else:
            getattr(bench, part)()


main()
