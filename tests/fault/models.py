"""Small models that the fault tests convert, made on the spot, and the conversions: one per output format."""
import hashlib
import json
import os
import random
import struct
from collections import namedtuple

Conversion = namedtuple('Conversion', 'name input output options')

CONVERSIONS = [
    Conversion('safetensors', 'model.safetensors', 'out.safetensors', []),
    Conversion('pytorch', 'model.safetensors', 'out.pth', []),
    Conversion('gguf', 'model.safetensors', 'out.gguf', ['--dtype', 'f16']),
    Conversion('onnx', 'model.onnx', 'out.onnx', ['--dtype', 'f16']),
    Conversion('onnx-external', 'external.onnx', 'out.onnx', []),
    Conversion('folder', 'folder', 'out', ['--shard-size', '40KB']),
    Conversion('shards', 'model.safetensors', 'out.safetensors', ['--shard-size', '40KB']),
    Conversion('zstd', 'model.safetensors', 'out.safetensors.zst', []),
]


def noise(seed, count):
    """Floats that every format holds as F16 too."""
    numbers = random.Random(seed)
    return struct.pack('<%df' % count, *(numbers.uniform(-8, 8) for _ in range(count)))


def safetensors(tensors):
    header, data = {'__metadata__': {'format': 'pt'}}, b''
    for name, shape, content in tensors:
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + data


def field(number, value):
    """One protobuf field: a varint, or bytes with their length."""
    def varint(n):
        out = b''
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx(tensors, external):
    """y = x · a, with every tensor as an initializer; `external` names the file of their data, if any."""
    initializers, offset = b'', 0
    for name, shape, content in tensors:
        proto = b''.join(field(1, extent) for extent in shape) + field(2, 1) + field(8, name)
        if external:
            for key, value in (('location', external), ('offset', str(offset)), ('length', str(len(content)))):
                proto += field(13, field(1, key) + field(2, value))
            proto += field(14, 1)
        else:
            proto += field(9, content)
        offset += len(content)
        initializers += field(5, proto)
    node = field(1, 'x') + field(1, tensors[0][0]) + field(2, 'y') + field(4, 'MatMul')
    graph = field(1, node) + field(2, 'g') + initializers + field(11, field(1, 'x')) + field(12, field(1, 'y'))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def write(path, content):
    with open(path, 'wb') as file:
        file.write(content)


def make_models(folder, seed):
    """Every input of CONVERSIONS; another seed gives others of the same names."""
    os.makedirs(os.path.join(folder, 'folder'))
    tensors = [('a', [64, 128], noise(seed, 64 * 128)), ('b', [40, 128], noise(seed + 1, 40 * 128)),
               ('c.bias', [128], noise(seed + 2, 128))]
    write(os.path.join(folder, 'model.safetensors'), safetensors(tensors))
    write(os.path.join(folder, 'folder', 'model.safetensors'), safetensors(tensors))
    write(os.path.join(folder, 'folder', 'config.json'), json.dumps({'model_type': 'test', 'seed': seed}).encode())
    write(os.path.join(folder, 'model.onnx'), onnx(tensors, None))
    write(os.path.join(folder, 'external.onnx'), onnx(tensors, 'external.onnx.data'))
    write(os.path.join(folder, 'external.onnx.data'), b''.join(content for _, _, content in tensors))


def write_sparse(path, size):
    """A safetensors file with one F32 tensor of zeros that takes no room on the disk."""
    header = json.dumps({'w': {'dtype': 'F32', 'shape': [size // 4096, 1024], 'data_offsets': [0, size]}}).encode()
    header += b' ' * (-len(header) % 8)
    write(path, struct.pack('<Q', len(header)) + header)
    os.truncate(path, 8 + len(header) + size)


def write_shards(folder, count):
    """A model of `count` shards with one tensor each, and their index."""
    os.makedirs(folder)
    weight_map = {}
    for i in range(count):
        name = 'model-%05d-of-%05d.safetensors' % (i + 1, count)
        weight_map['t%d' % i] = name
        write(os.path.join(folder, name), safetensors([('t%d' % i, [64], noise(i, 64))]))
    index = {'metadata': {'total_size': 256 * count}, 'weight_map': weight_map}
    write(os.path.join(folder, 'model.safetensors.index.json'), json.dumps(index).encode())


def tree(folder):
    """SHA-256 of every file below a folder, by relative path."""
    digests = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, 'rb') as file:
                digests[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
    return digests


def temporaries(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith('.wconv-tmp'))
