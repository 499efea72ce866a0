"""Messages of ONNX that are not needed: which of their fields are messages, so that all of a file is well-formed."""

from __future__ import annotations

from .protobuf import Nested

_PLAIN: Nested = {}
_SHAPE: Nested = {1: _PLAIN}
_TENSOR_TYPE: Nested = {2: _SHAPE}
_TYPE: dict[int, Nested] = {1: _TENSOR_TYPE, 7: _PLAIN, 8: _TENSOR_TYPE}
_TYPE |= {4: {1: _TYPE}, 5: {2: _TYPE}, 9: {1: _TYPE}}
VALUE: Nested = {2: _TYPE, 4: _PLAIN}
_TENSOR: Nested = {3: _PLAIN, 13: _PLAIN, 16: _PLAIN}
_SPARSE: Nested = {1: _TENSOR, 2: _TENSOR}
_SHARDING: Nested = {2: {3: _PLAIN, 4: {2: _PLAIN}}}
_GRAPH: dict[int, Nested] = {}
_ATTRIBUTE: Nested = {
    **{5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH},
    **{14: _TYPE, 15: _TYPE, 22: _SPARSE, 23: _SPARSE},
}
_NODE: Nested = {5: _ATTRIBUTE, 9: _PLAIN, 10: _SHARDING}
_GRAPH |= {1: _NODE, 5: _TENSOR, 11: VALUE, 12: VALUE, 13: VALUE, 14: {2: _PLAIN}, 15: _SPARSE, 16: _PLAIN}
_FUNCTION: Nested = {7: _NODE, 9: _PLAIN, 11: _ATTRIBUTE, 12: VALUE, 14: _PLAIN}

OF_MODEL: Nested = {
    **{8: _PLAIN, 14: _PLAIN, 20: {1: _GRAPH, 2: _GRAPH, 3: _PLAIN, 4: _PLAIN}},
    **{25: _FUNCTION, 26: _PLAIN},
}
"""Messages of a model other than its graph, by field."""

OF_GRAPH: Nested = {number: inner for number, inner in _GRAPH.items() if number not in (1, 5, 11, 12)}
OF_NODE: Nested = {number: inner for number, inner in _NODE.items() if number != 5}
OF_ATTRIBUTE: Nested = {number: inner for number, inner in _ATTRIBUTE.items() if number in (10, 14, 15, 22, 23)}
OF_TENSOR: Nested = {16: _PLAIN}
