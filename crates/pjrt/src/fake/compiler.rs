//! The fake's compiler and executables.

use super::memory::{FakeBuffer, bytes_of};
use super::signature::{self, Output};
use super::*;
use std::sync::RwLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

#[derive(Clone)]
struct FakeExecutable {
    outputs: Outputs,
    donates: Vec<usize>,
    devices: usize,
    /// The text it was compiled from, which is also its serialized form.
    text: String,
}

#[derive(Clone)]
enum Outputs {
    /// The first arguments plus one.
    Incremented(usize),
    /// Zeros.
    Zeros(Vec<Output>),
    /// What the executor's program of that number makes of the arguments.
    Executed(u32, Vec<Output>),
}

/// How many programs were started, over all executables.
static EXECUTIONS: AtomicU64 = AtomicU64::new(0);

pub(super) fn fill(table: &mut PJRT_Api) {
    table.PJRT_Client_Compile = Some(compile);
    table.PJRT_Compile = Some(compile_elsewhere);
    table.PJRT_Executable_GetCostAnalysis = Some(cost);
    table.PJRT_Executable_DeserializeAndLoad = Some(deserialize);
    table.PJRT_Executable_Serialize = Some(serialize);
    table.PJRT_Executable_Destroy = Some(destroy);
    table.PJRT_Executable_NumOutputs = Some(outputs);
    table.PJRT_Executable_GetCompiledMemoryStats = Some(memory_stats);
    table.PJRT_LoadedExecutable_Destroy = Some(destroy_loaded);
    table.PJRT_LoadedExecutable_GetExecutable = Some(get_executable);
    table.PJRT_LoadedExecutable_AddressableDevices = Some(devices_of);
    table.PJRT_LoadedExecutable_Execute = Some(execute);
}

/// # Safety
/// `client` must be one of the fake's, or null.
unsafe fn parse(text: &str, client: *const PJRT_Client) -> Option<FakeExecutable> {
    // SAFETY: guaranteed by the caller.
    let nodes = if client.is_null() { 1 } else { unsafe { borrow::<FakeClient, _>(client) }.nodes };
    let number = |key: &str| {
        let word = text.split_whitespace().find_map(|word| word.strip_prefix(key))?;
        word.parse().ok()
    };
    let text = text.to_string();
    if let Some(main) = signature::main(&text) {
        let (outputs, donates, devices) = (Outputs::Zeros(main.outputs), main.donates, main.devices.div_ceil(nodes));
        return Some(FakeExecutable { outputs, donates, devices, text });
    }
    let outputs = Outputs::Incremented(number("outputs=")?);
    let donates = number("donates=").into_iter().collect();
    Some(FakeExecutable { outputs, donates, devices: super::devices().len(), text })
}

impl FakeExecutable {
    fn outputs(&self) -> usize {
        match &self.outputs {
            Outputs::Incremented(count) => *count,
            Outputs::Zeros(outputs) | Outputs::Executed(_, outputs) => outputs.len(),
        }
    }
}

unsafe extern "C" fn compile(args: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments and the program are valid for the call.
    let (args, text) = unsafe {
        let program = &*(*args).program;
        assert_eq!(crate::named_value::text(program.format, program.format_size), "mlir");
        (&mut *args, crate::named_value::text(program.code.cast_const(), program.code_size))
    };
    // SAFETY: the options are valid for the call, too.
    let options = unsafe { crate::named_value::text(args.compile_options, args.compile_options_size) };
    if options.contains("unheard_of") {
        return fail(3, "No such compile option: 'unheard_of'");
    }
    std::thread::sleep(Duration::from_secs(setting("compile_seconds").unwrap_or(0)));
    if setting("refuses") == Some(1) {
        // The very words of libtpu 0.0.51.
        return fail(8, include_str!("out_of_memory.txt"));
    }
    if text.contains("__cudnn$") {
        return fail(13, "No valid execution plans built.");
    }
    // SAFETY: the client came from `client_create`.
    let Some(mut executable) = (unsafe { parse(&text, args.client) }) else {
        return fail(8, "Ran out of memory. Used 9.00G of 7.50G hbm.");
    };
    if let (true, Outputs::Zeros(outputs)) = (executor::is_there(), &executable.outputs) {
        // SAFETY: the options are valid for the call.
        let bytes = unsafe { crate::named_value::slice(args.compile_options.cast::<u8>(), args.compile_options_size) };
        match executor::compile(&text, bytes) {
            Ok(program) => executable.outputs = Outputs::Executed(program, outputs.clone()),
            Err(problem) => return fail(13, Box::leak(problem.into_boxed_str())),
        }
    }
    args.executable = into_pointer(executable);
    null_mut()
}

/// A compilation for a board: here the executable need not be loaded.
unsafe extern "C" fn compile_elsewhere(args: *mut PJRT_Compile_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments and the program are valid for the call.
    let (args, text) = unsafe {
        let program = &*(*args).program;
        (&mut *args, crate::named_value::text(program.code.cast_const(), program.code_size))
    };
    // SAFETY: the options are valid for the call, too.
    let options = unsafe { crate::named_value::text(args.compile_options, args.compile_options_size) };
    if text.contains("large_windows") && options.contains("xla_tpu_scoped_vmem_limit_kib") {
        return fail(8, "E1001: CompileTimeScopedVmemOom:\nRan out of memory in memory space vmem");
    }
    // SAFETY: there is no client.
    match unsafe { parse(&text, std::ptr::null()) } {
        Some(executable) => args.executable = into_pointer(executable),
        None => return fail(3, "This is no program."),
    }
    null_mut()
}

unsafe extern "C" fn cost(_: *mut PJRT_Executable_GetCostAnalysis_Args) -> *mut PJRT_Error {
    null_mut()
}

unsafe extern "C" fn deserialize(args: *mut PJRT_Executable_DeserializeAndLoad_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    let (args, text) = unsafe {
        (&mut *args, crate::named_value::text((*args).serialized_executable, (*args).serialized_executable_size))
    };
    // SAFETY: the client came from `client_create`.
    match unsafe { parse(&text, args.client) } {
        // What was compiled for the executor is in its memory alone.
        Some(executable) if executor::is_there() && matches!(executable.outputs, Outputs::Zeros(_)) => {
            return fail(3, "These bytes are of another process.");
        }
        Some(executable) => args.loaded_executable = into_pointer(executable),
        None => return fail(3, "These bytes are no executable."),
    }
    null_mut()
}

unsafe extern "C" fn delete_serialized(owner: *mut PJRT_SerializedExecutable) {
    // SAFETY: `serialize` returned it.
    drop(unsafe { from_pointer::<String, _>(owner) });
}

unsafe extern "C" fn serialize(args: *mut PJRT_Executable_Serialize_Args) -> *mut PJRT_Error {
    // SAFETY: executables are returned as `FakeExecutable`s.
    unsafe {
        let mut text = borrow::<FakeExecutable, _>((*args).executable).text.clone();
        let missing = (setting("executable_bytes").unwrap_or(0) as usize).saturating_sub(text.len());
        text.push_str(&" ".repeat(missing));
        (*args).serialized_bytes = text.as_ptr().cast();
        (*args).serialized_bytes_size = text.len();
        (*args).serialized_executable = into_pointer(text);
        (*args).serialized_executable_deleter = Some(delete_serialized);
    }
    null_mut()
}

unsafe extern "C" fn destroy(args: *mut PJRT_Executable_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    drop(unsafe { from_pointer::<FakeExecutable, _>((*args).executable) });
    null_mut()
}

unsafe extern "C" fn destroy_loaded(args: *mut PJRT_LoadedExecutable_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    drop(unsafe { from_pointer::<FakeExecutable, _>((*args).executable) });
    null_mut()
}

unsafe extern "C" fn get_executable(args: *mut PJRT_LoadedExecutable_GetExecutable_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).executable = into_pointer(borrow::<FakeExecutable, _>((*args).loaded_executable).clone()) };
    null_mut()
}

unsafe extern "C" fn outputs(args: *mut PJRT_Executable_NumOutputs_Args) -> *mut PJRT_Error {
    // SAFETY: as above.
    unsafe { (*args).num_outputs = borrow::<FakeExecutable, _>((*args).executable).outputs() };
    null_mut()
}

unsafe extern "C" fn memory_stats(args: *mut PJRT_Executable_GetCompiledMemoryStats_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call.
    let args = unsafe { &mut *args };
    (args.argument_size_in_bytes, args.output_size_in_bytes, args.alias_size_in_bytes) = (100, 90, 80);
    (args.temp_size_in_bytes, args.generated_code_size_in_bytes) = (setting("needs").unwrap_or(7) as i64, 3);
    null_mut()
}

unsafe extern "C" fn devices_of(args: *mut PJRT_LoadedExecutable_AddressableDevices_Args) -> *mut PJRT_Error {
    // SAFETY: the arguments are valid for the call, and executables are returned as `FakeExecutable`s.
    unsafe {
        (*args).addressable_devices = super::devices().as_ptr().cast();
        (*args).num_addressable_devices = borrow::<FakeExecutable, _>((*args).executable).devices;
    }
    null_mut()
}

unsafe extern "C" fn execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    let number = EXECUTIONS.fetch_add(1, Ordering::SeqCst) + 1;
    let vanishes = setting("vanishes").unwrap_or(u64::MAX);
    if number > vanishes {
        return gone();
    }
    if setting("exhausts") == Some(number) {
        return fail(8, "Out of memory while trying to allocate 34359738368 bytes.\nStack of allocations: 0x1");
    }
    // SAFETY: the arguments and the lists are valid for the call, with the lengths that they state.
    unsafe {
        let args = &mut *args;
        let executable: &FakeExecutable = borrow(args.executable);
        if executable.text.contains("fault=start") {
            return fail(13, "unknown cudnn status: 5003");
        }
        if executable.text.contains("fault=memory") {
            return fail(8, "Out of memory while trying to allocate 34359738368 bytes.");
        }
        let is_lost = number == vanishes || executable.text.contains("fault=later");
        let options = &*args.options;
        let keep =
            crate::named_value::slice(options.non_donatable_input_indices, options.num_non_donatable_input_indices);
        if let Outputs::Executed(program, outputs) = &executable.outputs {
            return execute_really(args, *program, outputs, &executable.donates, keep);
        }
        for device in 0..args.num_devices {
            let arguments = crate::named_value::slice(*args.argument_lists.add(device), args.num_args);
            let arguments: Vec<&FakeBuffer> = arguments.iter().map(|&buffer| borrow(buffer)).collect();
            if arguments.iter().any(|buffer| *buffer.deleted.read().unwrap()) {
                return fail(3, "Buffer has been deleted or donated.");
            }
            let done = FakeEvent::default();
            let outputs: Vec<FakeBuffer> = match &executable.outputs {
                Outputs::Incremented(count) => {
                    arguments[..*count].iter().map(|from| plus_one(from, &done, is_lost)).collect()
                }
                Outputs::Zeros(outputs) => {
                    done.set();
                    outputs.iter().map(|output| zeros(output, is_lost)).collect()
                }
                Outputs::Executed(..) => Vec::new(),
            };
            for (position, output) in outputs.into_iter().enumerate() {
                *(*args.output_lists.add(device)).add(position) = into_pointer(output);
            }
            for &index in executable.donates.iter().filter(|&&index| !keep.contains(&(index as i64))) {
                *arguments[index].deleted.write().unwrap() = true;
            }
            *args.device_complete_events.add(device) = into_pointer(done);
        }
    }
    null_mut()
}

/// Hands the arguments to the executor; outputs come later. When the executor is gone, they never come: devices that wait for
/// those of a lost process do so for ever.
///
/// # Safety
/// The arguments and lists must be valid for the call, with the lengths that they state.
unsafe fn execute_really(
    args: &mut PJRT_LoadedExecutable_Execute_Args,
    program: u32,
    outputs: &[Output],
    donates: &[usize],
    keep: &[i64],
) -> *mut PJRT_Error {
    let (mut arguments, mut pending, mut finished) = (Vec::new(), Vec::new(), Vec::new());
    for device in 0..args.num_devices {
        // SAFETY: guaranteed by the caller.
        let list: Vec<&FakeBuffer> = unsafe {
            let list = crate::named_value::slice(*args.argument_lists.add(device), args.num_args);
            list.iter().map(|&buffer| borrow(buffer)).collect()
        };
        if list.iter().any(|buffer| *buffer.deleted.read().unwrap()) {
            return fail(3, "Buffer has been deleted or donated.");
        }
        arguments.push(list.iter().map(|buffer| executor::Input::of(buffer)).collect());
        donates.iter().filter(|&&index| !keep.contains(&(index as i64))).for_each(|&index| {
            *list[index].deleted.write().unwrap() = true;
        });
        let (mut slots, done) = (Vec::new(), FakeEvent::default());
        for (position, output) in outputs.iter().enumerate() {
            let (bytes, ready) = (Arc::<RwLock<Vec<u8>>>::default(), FakeEvent::default());
            let Output { element, dims } = output.clone();
            slots.push((output.clone(), bytes.clone(), ready.clone()));
            let buffer = FakeBuffer { element, dims, bytes, ready, deleted: RwLock::new(false) };
            // SAFETY: guaranteed by the caller.
            unsafe { *(*args.output_lists.add(device)).add(position) = into_pointer(buffer) };
        }
        // SAFETY: as above.
        unsafe { *args.device_complete_events.add(device) = into_pointer(done.clone()) };
        pending.push(slots);
        finished.push(done);
    }
    let deliver = move |outputs: Result<Vec<Vec<executor::Tensor>>, String>| {
        let Ok(outputs) = outputs.inspect_err(|problem| eprintln!("the fake: {problem}")) else { return };
        for ((slots, tensors), done) in pending.into_iter().zip(outputs).zip(finished) {
            for ((output, bytes, ready), tensor) in slots.into_iter().zip(tensors) {
                assert_eq!((tensor.element, &tensor.dims), (output.element, &output.dims), "of an output on a device");
                *bytes.write().unwrap() = tensor.bytes;
                ready.set();
            }
            done.set();
        }
    };
    executor::send(executor::Request::Execute { program, arguments, done: Box::new(deliver) });
    null_mut()
}

fn zeros(output: &Output, is_lost: bool) -> FakeBuffer {
    let ready = if is_lost { FakeEvent::of_lost_work() } else { FakeEvent::default() };
    ready.set();
    FakeBuffer {
        element: output.element,
        dims: output.dims.clone(),
        bytes: Arc::new(RwLock::new(vec![0; bytes_of(output.element, &output.dims)])),
        ready,
        deleted: RwLock::new(false),
    }
}

fn plus_one(source: &FakeBuffer, done: &FakeEvent, is_lost: bool) -> FakeBuffer {
    let result = FakeBuffer {
        element: source.element,
        dims: source.dims.clone(),
        bytes: Arc::default(),
        ready: if is_lost { FakeEvent::of_lost_work() } else { FakeEvent::default() },
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
