#!/usr/bin/env python3
"""Runs wconv in every way that gives another --json document, and checks each against docs/schemas.
usage: schemas.py WCONV SOURCE_FOLDER"""
import copy
import json
import os
import struct
import subprocess
import sys
import tempfile

from jsonschema import Draft202012Validator

wconv, source = sys.argv[1:]
model = os.path.join(source, "tests/models/kjv-qwen2")
seen = {}  # schema → properties that some document had
failures = []


def closed(schema):
    """The schema with no other properties than it names: readers must accept new ones, but all are to be documented."""
    if isinstance(schema, dict):
        schema = {key: closed(value) for key, value in schema.items()}
        if "properties" in schema and schema.get("type") == "object":
            schema["additionalProperties"] = False
        return schema
    return [closed(item) for item in schema] if isinstance(schema, list) else schema


def load(name):
    with open(os.path.join(source, "docs/schemas", name + ".schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    Draft202012Validator.check_schema(schema)
    return schema


schemas = {name: load(name) for name in ("inspect", "convert", "verify", "error", "progress")}
validators = {name: Draft202012Validator(closed(schema)) for name, schema in schemas.items()}


def keys(value):
    """Every key of every object below `value`, but those of metadata."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key != "metadata":
                yield from keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


def check(name, text, what):
    document = json.loads(text)
    for error in validators[name].iter_errors(document):
        failures.append(f"{what}: {name}: {error.json_path}: {error.message[:200]}")
    seen.setdefault(name, set()).update(keys(document))


def run(name, *arguments, status=0):
    """Checks each line of stdout: a document of the schema `name`, or an error. Status None: any."""
    result = subprocess.run([wconv, "--json", *arguments], capture_output=True, text=True, check=False, timeout=30)
    what = " ".join(arguments)
    if status is not None and result.returncode != status:
        failures.append(f"{what}: status {result.returncode}, not {status}: {result.stderr}")
    if not result.stdout:
        failures.append(f"{what}: nothing on stdout")
    for line in result.stdout.splitlines():
        check("error" if '"error": {' in line[:30] else name, line, what)
    return result


def properties(schema):
    """Names of all properties in a schema; those of metadata and of percentiles are data."""
    names = set()
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties":
                names.update(value)
            names |= properties(value)
    elif isinstance(schema, list):
        for item in schema:
            names |= properties(item)
    return names


def rejects(name, text, change):
    """A changed document must not pass: the schemas say something."""
    document = json.loads(text)
    changed = copy.deepcopy(document)
    change(changed)
    if validators[name].is_valid(changed):
        failures.append(f"{name}: a document with a wrong part passes: {json.dumps(changed)[:200]}")


def write_safetensors(path, floats, name="w"):
    header = json.dumps({name: {"dtype": "F32", "shape": [len(floats)], "data_offsets": [0, 4 * len(floats)]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(floats)}f", *floats))


with tempfile.TemporaryDirectory() as folder:
    def at(name):
        return os.path.join(folder, name)

    out = run("inspect", "inspect", model, "--stats", "--hash", "--scan").stdout
    rejects("inspect", out, lambda d: d.update(schema=2))
    rejects("inspect", out, lambda d: d["tensors"][0].update(bytes="1"))
    rejects("inspect", out, lambda d: d.pop("totals"))
    out = run("convert", "convert", model, "-o", at("m.gguf"), "--exclude", "*.bias").stdout
    rejects("convert", out, lambda d: d["outputs"][0].update(sha256="0"))
    run("convert", "convert", model, "-o", at("m.safetensors.zst"), "--dtype", "f16", "--dry-run")
    run("convert", "convert", model, "-o", at("n.safetensors"), "--dtype", "f16", "--no-manifest")
    out = run("verify", "verify", model, at("n.safetensors"), status=1).stdout
    rejects("verify", out, lambda d: d["tensors"][0].update(status="fine"))
    run("verify", "verify", model, at("m.gguf"), status=1)
    run("verify", "verify", model, at("m.gguf"), "--keys", status=1)
    run("verify", "verify", model)
    run("verify", "verify", at("m.gguf"), "--manifest")
    write_safetensors(at("a.safetensors"), [1.0, 2.0, float("nan")])
    write_safetensors(at("b.safetensors"), [1.0, 3.0, 4.0])
    write_safetensors(at("c.safetensors"), [1.0, 3.0, 4.0, 5.0])
    write_safetensors(at("d.safetensors"), [1.0, 2.0, float("nan")], "module.w")
    for other in "bcd":
        run("verify", "verify", at("a.safetensors"), at(other + ".safetensors"), status=1)
    run("inspect", "inspect", at("a.safetensors"), "--stats")
    os.mkdir(at("untied"))
    os.symlink(os.path.join(model, "model.safetensors"), at("untied/model.safetensors"))
    with open(at("untied/config.json"), "w", encoding="utf-8") as file:
        json.dump({"architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": False}, file)
    run("verify", "verify", at("untied"), status=1)
    run("convert", "convert", at("b.safetensors"), "-o", at("whole.safetensors"))
    with open(at("whole.safetensors"), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    run("verify", "verify", at("whole.safetensors"), "--manifest", status=1)
    out = run("inspect", "inspect", at("none"), status=66).stdout
    rejects("error", out, lambda d: d["error"].update(code="other"))
    run("inspect", "inspect", "--wrong", status=2)

    # Every case, each of which is one kind of file that once went wrong.
    for place, _, names in os.walk(os.path.join(source, "tests/cases")):
        for name in sorted(names):
            if not name.endswith((".py", ".json", ".md")):
                run("inspect", "inspect", os.path.join(place, name), "--scan", status=None)

    lines = subprocess.run([wconv, "-q", "--json", "--progress", "json", "convert", model, "-o", at("p.pth")],
                           capture_output=True, text=True, check=True).stderr.splitlines()
    for line in lines:
        check("progress", line, "progress")
    last = json.loads(lines[-1])
    if last["done"] != last["total"] or last["total"] == 0:
        failures.append(f"the last line of progress is not the end: {lines[-1]}")

for name, schema in schemas.items():
    never = properties(schema) - seen.get(name, set())
    if never:
        failures.append(f"{name}: no document had {', '.join(sorted(never))}")

if failures:
    sys.exit("\n".join(failures[:40]))
print("every document is as its schema says")
