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
_LINE = re.compile(r"^\s*(ROOT )?%([\w.-]+) = (.*?) ([\w-]+)\((.*?)\)(.*)$")
# Operations that move no bytes, or whose bytes are counted elsewhere.
_FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast"),
    *("copy-done", "slice-done", "fusion-done", "after-all", "iota"),
}
_FREE_CALLS = "AllocateBuffer|ConcatBitcast|AssumeGather|GatherScatter|X64"
_SLICES = ("slice", "dynamic-slice", "gather", "slice-start")


class _Operation(NamedTuple):
    root: str
    name: str
    shape: str
    kind: str
    arguments: str
    attributes: str

    def find(self, pattern: str) -> str:
        """Returns the group of a pattern in the attributes, or ""."""
        found = re.search(pattern, self.attributes)
        return found[1] if found else ""

    @property
    def operands(self) -> list[str]:
        return re.findall(r"%([\w.-]+)", self.arguments)


_Operations = dict[str, _Operation]  # of a computation, by name


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

    The compiler's own count has the body of a loop once; here it counts as
    often as it runs. Of arrays that slices are taken from or put into, also
    within a fusion, the slices count. Arrays in a core's own memory, `S(...)`
    in their layout, and the scratch of libraries do not.
    """
    program = _Program(text)
    return program.count(re.findall(r"(?m)^ENTRY %?([\w.-]+)", text)[0])


class _Program:
    """The computations of a program."""

    def __init__(self, text: str) -> None:
        self._computations: dict[str, _Operations] = {}
        for block in re.split(r"^}", text, flags=re.MULTILINE):
            if head := _HEAD.search(block):
                lines = map(_LINE.match, block[head.end() :].splitlines())
                found = [_Operation(*line.groups("")) for line in lines if line]
                self._computations[head[1]] = {one.name: one for one in found}

    def count(self, name: str) -> float:
        """Bytes of a computation that is not a fusion's."""
        within, total = self._computations[name], 0.0
        for one in within.values():
            if one.kind == "while":
                body = one.find(r"body=%([\w.-]+)")
                total += self._count_turns(one, within) * self.count(body)
            elif one.kind not in _FREE and not one.find(f"({_FREE_CALLS})"):
                total += self._count_written(one, within)
                for place, operand in enumerate(one.operands):
                    size = sum(_list_sizes(within[operand].shape))
                    total += self._count_read(one, place, size, within)
        return total

    def _called(self, one: _Operation) -> _Operations:
        """The computation of a fusion; of other operations an empty one."""
        return self._computations.get(one.find(r"calls=%([\w.-]+)"), {})

    def _count_turns(self, loop: _Operation, within: _Operations) -> int:
        """Counts a loop's iterations: a constant, or those of another loop."""
        condition = self._computations[loop.find(r"condition=%([\w.-]+)")]
        if limit := self._find_number(condition):
            return limit
        state = within[loop.operands[0]].operands
        for one in condition.values():
            if one.kind == "get-tuple-element":
                first = within[state[int(one.find(r"index=(\d+)"))]]
                if first.kind == "get-tuple-element":
                    return self._count_turns(within[first.operands[0]], within)
                if first.kind == "constant" and first.arguments != "0":
                    return int(first.arguments)
        raise ValueError(f"A loop must have a known end. Received: {loop.name}")

    def _find_number(self, within: _Operations) -> int:
        """The largest constant of a computation and its fusions, or 0."""
        found = [0]
        for one in within.values():
            found.append(self._find_number(self._called(one)))
            if one.kind == "constant" and one.arguments.isdigit():
                found.append(int(one.arguments))
        return max(found)

    def _count_written(self, one: _Operation, within: _Operations) -> float:
        """Bytes that an operation writes."""
        if called := self._called(one):
            root = next(each for each in called.values() if each.root)
            return self._count_written(root, called)
        operands = [within[name] for name in one.operands]
        if one.kind == "tuple":
            return sum(self._count_written(part, within) for part in operands)
        if one.kind == "bitcast":
            return self._count_written(operands[0], within)
        if one.kind == "dynamic-update-slice":
            return sum(_list_sizes(operands[1].shape))
        shape = one.shape
        if one.kind == "custom-call":
            shape = re.sub(r"s8\[\d+\]", "", shape)
        sizes = _list_sizes(shape)
        started = {"copy-start": 0, "slice-start": 1}
        return sizes[started[one.kind]] if one.kind in started else sum(sizes)

    def _count_read(
        self, one: _Operation, place: int, size: float, within: _Operations
    ) -> float:
        """Bytes that an operation reads of an operand of a size."""
        if called := self._called(one):
            within = called
            one = next(
                each
                for each in called.values()
                if each.kind == "parameter" and each.arguments == str(place)
            )
        elif place == 0 and one.kind in _SLICES:
            taken = re.sub(r"S\(\d+\)", "", one.shape)
            return min(size, _list_sizes(taken)[one.kind == "slice-start"])
        elif place == 0 and one.kind == "dynamic-update-slice":
            return 0.0
        elif one.kind != "bitcast":
            return size
        uses = [
            self._count_read(user, number, size, within)
            for user in within.values()
            for number, operand in enumerate(user.operands)
            if operand == one.name
        ]
        return min(size, sum(uses))


def _list_sizes(shape: str) -> list[float]:
    """Bytes of each array of a shape, 0 outside of the device's memory."""
    return [
        math.prod(int(axis) for axis in axes.split(",") if axis)
        * (0 if "S(" in layout else _BITS[kind] / 8)
        for kind, axes, layout in _ARRAY.findall(shape)
        if kind in _BITS
    ]


if __name__ == "__main__":
    main()
