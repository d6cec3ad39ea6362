"""Prints the golden bytes of src/compile_options.rs, encoded by protobuf itself.

Needs the `protobuf` package; with `jaxlib` also installed, XLA's own parser checks every message.
The field numbers are those of xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

INT64, INT32, BOOL, STRING, DOUBLE, MESSAGE = 3, 5, 8, 9, 1, 11
FIELDS = {
    "Computation": [("replica_device_ids", 1, INT64, "", True)],
    "Assignment": [("replica_count", 1, INT32), ("computation_count", 2, INT32),
                   ("computation_devices", 3, MESSAGE, "Computation", True)],
    "Build": [("device_ordinal", 1, INT64), ("num_replicas", 4, INT64), ("num_partitions", 5, INT64),
              ("use_spmd_partitioning", 6, BOOL), ("device_assignment", 9, MESSAGE, "Assignment"),
              ("use_shardy_partitioner", 19, BOOL)],
    "Override": [("string_field", 1, STRING), ("bool_field", 2, BOOL), ("int_field", 3, INT64),
                 ("double_field", 4, DOUBLE)],
    "Entry": [("key", 1, STRING), ("value", 2, MESSAGE, "Override")],
    "Options": [("executable_build_options", 3, MESSAGE, "Build"), ("env_option_overrides", 7, MESSAGE, "Entry", True)],
}


def message_types():
    file = descriptor_pb2.FileDescriptorProto(name="golden.proto", package="golden", syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        if name == "Override":
            message.oneof_decl.add(name="value")
        for field, number, kind, *rest in fields:
            field = message.field.add(name=field, number=number, type=kind, label=3 if len(rest) == 2 else 1)
            if kind == MESSAGE:
                field.type_name = f".golden.{rest[0]}"
            if name == "Override":
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"golden.{name}")) for name in FIELDS}


def cases(types):
    def options(partitions, replicas=1):
        made = types["Options"]()
        build = made.executable_build_options
        build.device_ordinal, build.num_replicas, build.num_partitions = -1, replicas, partitions
        build.use_spmd_partitioning = build.use_shardy_partitioner = True
        return made

    yield "one device", options(1)

    assigned = options(3, replicas=2)
    assignment = assigned.executable_build_options.device_assignment
    assignment.replica_count, assignment.computation_count = 2, 3
    for ids in ([0, 300], [1, 4], [2, 5]):
        assignment.computation_devices.add(replica_device_ids=ids)
    yield "device assignment", assigned

    flagged = options(8)
    for key, field, value in [("a_bool", "bool_field", False), ("a_double", "double_field", 0.5),
                              ("a_text", "string_field", "x"), ("an_int", "int_field", -2)]:
        setattr(flagged.env_option_overrides.add(key=key).value, field, value)
    yield "flags", flagged


def check_with_xla(encoded):
    try:
        from jax._src.lib import xla_client
    except ImportError:
        return
    xla_client.CompileOptions.ParseFromString(encoded)


if __name__ == "__main__":
    for name, message in cases(message_types()):
        encoded = message.SerializeToString(deterministic=True)
        check_with_xla(encoded)
        print(f"{name}: {encoded.hex()}")
