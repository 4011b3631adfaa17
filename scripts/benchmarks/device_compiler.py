"""Compiles the program of a step for devices that are not there.

    PYTHON -m benchmarks.device_compiler STEP.hlo REPLICAS TOPOLOGY [...]

Runs where jax and the devices' compilers are installed; it imports nothing
else. A topology is JSON: the arguments of JAX's `get_topology_desc`. For each
it prints a line of JSON: what one core needs, or the `error`.
"""

import json
import math
import os
import pathlib
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

# The library looks for the metadata of a TPU VM otherwise.
_ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "JAX_PLATFORMS": "cpu",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
# Operations of TensorFlow's programs that JAX knows by another name.
_RENAMED = (
    (r'"?mhlo\.copy"?', "stablehlo.optimization_barrier"),
    (r"mhlo\.erf (%\S+) : (tensor<[^>]*>)", r"chlo.erf \1 : \2 -> \2"),
)
_BITS = {"pred": 8, "bf16": 16} | {
    f"{kind}{bits}": bits for kind in "fsu" for bits in (4, 8, 16, 32, 64)
}
_ARRAY = re.compile(r"\b(\w+)\[([\d,]*)\](\{[^}]*\})?")
_HEAD = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$", re.MULTILINE)
_LINE = re.compile(r"^\s*(?:ROOT )?%([\w.-]+) = (.*?) ([\w-]+)\((.*)$")
# They move nothing, or what they move is counted where it is done.
_FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast"),
    *("while", "copy-done", "slice-done", "after-all", "iota"),
}


class _Operation(NamedTuple):
    name: str
    shape: str
    kind: str
    rest: str  # operands and attributes


def main() -> None:
    """Prints a line for each topology."""
    os.environ.update(_ENVIRONMENT)
    program = _read_program(pathlib.Path(sys.argv[1]))
    for topology in sys.argv[3:]:
        try:
            facts = _compile(program, int(sys.argv[2]), json.loads(topology))
        except Exception as error:
            # Whatever the compiler does not like of one device.
            facts = {"error": explain(str(error))}
        print(json.dumps(facts), flush=True)


def explain(message: str) -> str:
    """The first line of a message, and its operation with the largest array."""
    found = re.search(r'op_name="([^"]+)"', message)
    line = message.strip().partition("\n")[0]
    return line + (f" Operation: {found[1]}." if found else "")


def _read_program(path: pathlib.Path) -> str:
    from jax._src.lib import _jax
    from jax._src.lib import xla_client

    computation = xla_client.XlaComputation(path.read_bytes())
    text = _jax.mlir.xla_computation_to_mlir_module(computation)
    text = text if isinstance(text, str) else text.decode()
    for pattern, name in _RENAMED:
        text = re.sub(pattern, name, text)
    return text


def _compile(
    program: str, num_replicas: int, topology: dict[str, str]
) -> dict[str, Any]:
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    described = topologies.get_topology_desc(**topology)
    devices = described.devices[:num_replicas]
    options = compiler.get_compile_options(num_replicas, 1)
    with mlir.make_ir_context():
        module = ir.Module.parse(program)
        start = time.perf_counter()
        built = devices[0].client.compile(
            module, _jax.DeviceList(tuple(devices)), options
        )
    seconds = time.perf_counter() - start
    memory = built.get_compiled_memory_stats()
    return {
        "device": devices[0].device_kind,
        "seconds": seconds,
        "program": memory.generated_code_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
        "arguments": memory.argument_size_in_bytes,
        "moved": count_bytes(built.hlo_modules()[0].to_string()),
    }


def count_bytes(text: str) -> float:
    """Bytes that an optimized program reads from memory and writes to it.

    The compiler's own count has the body of a loop once. Here it counts as
    often as it runs; of arrays with a place for each turn, a turn takes one.
    Arrays in a core's own memory, `S(...)` in their layout, are not counted.
    """
    computations = dict(_split(text))

    def count(name: str, turns: int) -> float:
        total = _moved(computations[name], turns)
        for operation in computations[name]:
            if operation.kind == "while":
                pattern = r"(body|condition)=%([\w.-]+)"
                names = dict(re.findall(pattern, operation.rest))
                limit = _find_limit(computations[names["condition"]])
                total += limit * count(names["body"], limit)
        return total

    return count(re.findall(r"(?m)^ENTRY %?([\w.-]+)", text)[0], 1)


def _find_limit(condition: list[_Operation]) -> int:
    """How often a loop runs: the constant that its counter is compared with."""
    constants = [one.rest for one in condition if one.kind == "constant"]
    limits = [int(n) for text in constants for n in re.findall(r"^\d+", text)]
    return max(limits, default=1)


def _split(text: str) -> Iterator[tuple[str, list[_Operation]]]:
    """The computations of a program, by name."""
    for block in re.split(r"^}", text, flags=re.MULTILINE):
        if head := _HEAD.search(block):
            lines = map(_LINE.match, block[head.end() :].splitlines())
            yield (
                head[1],
                [_Operation(*line.groups()) for line in lines if line],
            )


def _moved(operations: list[_Operation], turns: int) -> float:
    shapes = {operation.name: operation.shape for operation in operations}
    total = 0.0
    for operation in operations:
        if operation.kind in _FREE:
            continue
        results = _list_sizes(operation.shape, turns)
        if operation.kind in ("copy-start", "slice-start"):
            results = results[:1]
        total += sum(results)
        operands = operation.rest.partition(")")[0]
        for name in re.findall(r"%([\w.-]+)", operands):
            total += sum(_list_sizes(shapes.get(name, ""), turns))
    return total


def _list_sizes(shape: str, turns: int) -> list[float]:
    """Bytes of the arrays of a shape that lie in the device's memory."""
    sizes = []
    for kind, axes, layout in _ARRAY.findall(shape):
        if kind not in _BITS or "S(" in layout:
            continue
        counts = [int(axis) for axis in axes.split(",") if axis]
        is_stack = turns > 1 and len(counts) > 1 and counts[0] == turns
        size = math.prod(counts) * _BITS[kind] / 8
        sizes.append(size / turns if is_stack else size)
    return sizes


if __name__ == "__main__":
    main()
