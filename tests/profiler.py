"""Operations by TensorFlow's own profiler, for tests of our counts."""

import tensorflow as tf


def count_matrix_products(function, *arguments) -> float:
    """Counts the operations of the products in a function; nothing is run."""
    traced = tf.function(function, autograph=False)
    graph = traced.get_concrete_function(*arguments).graph
    operations = _executed(graph)
    # The profiler does not look into calls and loops, and counts a product of
    # unknown size as nothing: there must be neither.
    kinds = {operation.type for operation in operations}
    hidden = [k for k in kinds if "Call" in k or "While" in k or k == "If"]
    assert not hidden, hidden
    products = {o.name: o for o in operations if "MatMul" in o.type}
    for name, product in products.items():
        assert product.outputs[0].shape.is_fully_defined(), name
    profiler = tf.compat.v1.profiler
    builder = profiler.ProfileOptionBuilder
    options = builder(builder.float_operation()).with_empty_output().build()
    nodes = [profiler.profile(graph, cmd="scope", options=options)]
    total, counted = 0.0, set()
    while nodes:
        node = nodes.pop()
        nodes.extend(node.children)
        if node.name in products and node.float_ops:
            counted.add(node.name)
            total += node.float_ops * _correction(products[node.name])
    assert counted == set(products)
    return total


def _correction(product) -> float:
    """The factor that corrects the profiler's count of a product.

    It takes the last axis of the first factor for the one summed over, even
    where a batched product takes that factor transposed (`adj_x`).
    """
    if product.type == "MatMul" or not product.get_attr("adj_x"):
        return 1.0
    *_, summed, last = product.inputs[0].shape
    return summed / last


def _executed(graph) -> set:
    """The operations that results or effects need; others are pruned."""
    waiting = [tensor.op for tensor in graph.outputs] + graph.control_outputs
    found = set()
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting.extend(tensor.op for tensor in operation.inputs)
            waiting.extend(operation.control_inputs)
    return found
