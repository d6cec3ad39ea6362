//! The fake's compiler and executables.

use super::memory::FakeBuffer;
use super::*;
use std::sync::RwLock;

#[derive(Clone)]
struct FakeExecutable {
    outputs: usize,
    donates: Option<usize>,
    /// The text it was compiled from, which is also its serialized form.
    text: String,
}

pub(super) fn fill(table: &mut PJRT_Api) {
    table.PJRT_Client_Compile = Some(compile);
    table.PJRT_Executable_DeserializeAndLoad = Some(deserialize);
    table.PJRT_Executable_Serialize = Some(serialize);
    table.PJRT_Executable_Destroy = Some(destroy);
    table.PJRT_Executable_NumOutputs = Some(outputs);
    table.PJRT_Executable_GetCompiledMemoryStats = Some(memory_stats);
    table.PJRT_LoadedExecutable_Destroy = Some(destroy_loaded);
    table.PJRT_LoadedExecutable_GetExecutable = Some(get_executable);
    table.PJRT_LoadedExecutable_AddressableDevices = Some(devices);
    table.PJRT_LoadedExecutable_Execute = Some(execute);
}

fn parse(text: &str) -> Option<FakeExecutable> {
    let number = |key: &str| {
        let word = text.split_whitespace().find_map(|word| word.strip_prefix(key))?;
        word.parse().ok()
    };
    Some(FakeExecutable { outputs: number("outputs=")?, donates: number("donates="), text: text.to_string() })
}

unsafe extern "C" fn compile(args: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments and the program are valid for the call.
    let (args, text) = unsafe {
        let program = &*(*args).program;
        assert_eq!(crate::named_value::text(program.format, program.format_size), "mlir");
        (&mut *args, crate::named_value::text(program.code.cast_const(), program.code_size))
    };
    match parse(&text) {
        Some(executable) => args.executable = hand_out(executable),
        None => return fail(8, "Ran out of memory. Used 9.00G of 7.50G hbm."),
    }
    null_mut()
}

unsafe extern "C" fn deserialize(args: *mut PJRT_Executable_DeserializeAndLoad_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    let (args, text) = unsafe {
        (&mut *args, crate::named_value::text((*args).serialized_executable, (*args).serialized_executable_size))
    };
    match parse(&text) {
        Some(executable) => args.loaded_executable = hand_out(executable),
        None => return fail(3, "These bytes are no executable."),
    }
    null_mut()
}

unsafe extern "C" fn delete_serialized(owner: *mut PJRT_SerializedExecutable) {
    // SAFETY: `serialize` handed it out.
    drop(unsafe { take_back::<String, _>(owner) });
}

unsafe extern "C" fn serialize(args: *mut PJRT_Executable_Serialize_Args) -> *mut PJRT_Error {
    // SAFETY: executables are handed out as `FakeExecutable`s.
    unsafe {
        let text = look_at::<FakeExecutable, _>((*args).executable).text.clone();
        (*args).serialized_bytes = text.as_ptr().cast();
        (*args).serialized_bytes_size = text.len();
        (*args).serialized_executable = hand_out(text);
        (*args).serialized_executable_deleter = Some(delete_serialized);
    }
    null_mut()
}

unsafe extern "C" fn destroy(args: *mut PJRT_Executable_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    drop(unsafe { take_back::<FakeExecutable, _>((*args).executable) });
    null_mut()
}

unsafe extern "C" fn destroy_loaded(args: *mut PJRT_LoadedExecutable_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    drop(unsafe { take_back::<FakeExecutable, _>((*args).executable) });
    null_mut()
}

unsafe extern "C" fn get_executable(args: *mut PJRT_LoadedExecutable_GetExecutable_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).executable = hand_out(look_at::<FakeExecutable, _>((*args).loaded_executable).clone()) };
    null_mut()
}

unsafe extern "C" fn outputs(args: *mut PJRT_Executable_NumOutputs_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).num_outputs = look_at::<FakeExecutable, _>((*args).executable).outputs };
    null_mut()
}

unsafe extern "C" fn memory_stats(args: *mut PJRT_Executable_GetCompiledMemoryStats_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    let args = unsafe { &mut *args };
    (args.argument_size_in_bytes, args.output_size_in_bytes, args.alias_size_in_bytes) = (100, 90, 80);
    (args.temp_size_in_bytes, args.generated_code_size_in_bytes) = (7, 3);
    null_mut()
}

unsafe extern "C" fn devices(args: *mut PJRT_LoadedExecutable_AddressableDevices_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    unsafe {
        (*args).addressable_devices = DEVICES.0.as_ptr().cast();
        (*args).num_addressable_devices = DEVICES.0.len();
    }
    null_mut()
}

unsafe extern "C" fn execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments and the lists are valid for the call, with the lengths that they state.
    unsafe {
        let args = &mut *args;
        let executable: &FakeExecutable = look_at(args.executable);
        let options = &*args.options;
        let keep =
            crate::named_value::slice(options.non_donatable_input_indices, options.num_non_donatable_input_indices);
        for device in 0..args.num_devices {
            let arguments = crate::named_value::slice(*args.argument_lists.add(device), args.num_args);
            let arguments: Vec<&FakeBuffer> = arguments.iter().map(|&buffer| look_at(buffer)).collect();
            if arguments.iter().any(|buffer| *buffer.deleted.read().unwrap()) {
                return fail(3, "Buffer has been deleted or donated.");
            }
            let done = FakeEvent::default();
            for output in 0..executable.outputs {
                *(*args.output_lists.add(device)).add(output) = hand_out(plus_one(arguments[output], &done));
            }
            let donated = executable.donates.filter(|&index| !keep.contains(&(index as i64)));
            if let Some(index) = donated {
                *arguments[index].deleted.write().unwrap() = true;
            }
            *args.device_complete_events.add(device) = hand_out(done);
        }
    }
    null_mut()
}

fn plus_one(source: &FakeBuffer, done: &FakeEvent) -> FakeBuffer {
    let result = FakeBuffer {
        element: source.element,
        dims: source.dims.clone(),
        bytes: Arc::default(),
        ready: FakeEvent::default(),
        deleted: RwLock::new(false),
    };
    let (from, is_there) = (source.bytes.clone(), source.ready.clone());
    let (to, ready, done) = (result.bytes.clone(), result.ready.clone(), done.clone());
    later(move || {
        is_there.wait();
        let from = from.read().unwrap();
        let numbers = from.chunks_exact(4).map(|chunk| f32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
        to.write().unwrap().extend(numbers.flat_map(|number| (number + 1.0).to_ne_bytes()));
        ready.set();
        done.set();
    });
    result
}
