//! How fast the kernels are: GFLOP/s and the share of the matrix-product peak measured in the same run.
//!
//! `cargo run --release -p octant-cpu --example kernel_speed [THREADS] [FILTER] [cold]`: with `cold`, all operands come from
//! memory, as those of a long step do.

use half::bf16;
use octant_cpu::kernels::{
    ConvGeometry, ForwardConv, Gemm, Machine, MatrixStrides, Output, Pool2d, PoolReduction, Weights, WeightsGradient,
    gemm, max_pool2d_gradient, pool2d,
};
use octant_cpu::pool::ThreadPool;
use std::sync::OnceLock;
use std::time::Instant;

/// What is read between two runs to push everything else out of the caches.
static SWEEP: OnceLock<Vec<f32>> = OnceLock::new();

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().and_then(|text| text.parse().ok()).unwrap_or_else(ThreadPool::available);
    let filter = arguments.next().unwrap_or_default();
    if arguments.next().is_some_and(|mode| mode == "cold") {
        SWEEP.get_or_init(|| numbers(64 << 20));
    }
    let machine = match Machine::new(threads) {
        Ok(machine) => machine,
        Err(error) => return eprintln!("{error}"),
    };
    println!("{threads} threads, {:?}, bf16 by {:?}", machine.simd.level(), machine.simd.bf16());
    println!("{:44} {:8.2} µs", "handing out a job", 1e-3 / best(1.0, || machine.pool.run(threads, &|_| ())));
    let peak = gemm_speed(&machine, &Gemm::row_major(2048, 2048, 2048));
    println!("{:44} {peak:8.1} GFLOP/s = peak", "gemm 2048³");
    for (name, shape) in products().into_iter().filter(|(name, _)| name.contains(&filter)) {
        report(name, "", gemm_speed(&machine, &shape), peak);
    }
    for (name, conv) in convolutions().into_iter().filter(|(name, _)| name.contains(&filter)) {
        let traffic = 4 * (elements(&conv).iter().sum::<usize>());
        for (pass, speed) in conv_speeds(&machine, &conv) {
            let bytes = traffic as f64 / (conv.flops() / speed);
            report(name, &format!("{pass} ({bytes:5.1} GB/s)"), speed, peak);
        }
    }
    for (name, conv) in convolutions().into_iter().filter(|(name, conv)| conv.groups == 1 && name.contains(&filter)) {
        for (pass, speed) in bf16_speeds(&machine, &conv) {
            report(name, &format!("bf16 {pass}"), speed, peak);
        }
    }
    if "pool".contains(&filter) {
        for (name, seconds, bytes) in pooling_times(&machine) {
            println!("{name:40} {:8.3} ms {:6.1} GB/s", 1e3 * seconds, bytes as f64 / seconds / 1e9);
        }
    }
}

/// (name, seconds, bytes read and written) of poolings.
fn pooling_times(machine: &Machine) -> Vec<(String, f64, usize)> {
    let pools = [
        ("pool 3×3 s2 64 112² b16", Pool2d::square(16, [112; 2], 64, 3, 2, 1)),
        ("pool 2×2 s2 64 26² b128", Pool2d::square(128, [26; 2], 64, 2, 2, 0)),
        ("pool 2×2 s2 16 256² b4", Pool2d::square(4, [256; 2], 16, 2, 2, 0)),
        ("pool 13×13 256 20² b1", Pool2d::square(1, [20; 2], 256, 13, 1, 6)),
    ];
    let mut times = Vec::new();
    for (name, pool) in pools {
        let size = |extents: [usize; 2]| pool.batch * extents[0] * extents[1] * pool.channels;
        let (x, mut y) = (numbers(size(pool.input)), numbers(size(pool.output)));
        let mut dx = vec![0.0; x.len()];
        let bytes = 4 * (x.len() + y.len());
        let seconds = 1e-9 / best(1.0, || pool2d(machine, &pool, PoolReduction::Max, f32::MIN, &x, &mut y));
        times.push((format!("{name} max"), seconds, bytes));
        let (x16, mut y16) = (x.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>(), vec![bf16::ZERO; y.len()]);
        let seconds = 1e-9 / best(1.0, || pool2d(machine, &pool, PoolReduction::Max, f32::MIN, &x16, &mut y16));
        times.push((format!("{name} bf16 max"), seconds, bytes / 2));
        let seconds = 1e-9 / best(1.0, || max_pool2d_gradient(machine, &pool, 0.0, &x, &y, &mut dx));
        times.push((format!("{name} gradient"), seconds, bytes + 4 * x.len()));
    }
    times
}

fn report(name: &str, note: &str, speed: f64, peak: f64) {
    println!("{name:30} {note:22} {speed:8.1} GFLOP/s {:4.0} %", 100.0 * speed / peak);
}

/// GFLOP/s of the fastest of several runs: other processes can only make a run slower.
fn best(flops: f64, mut body: impl FnMut()) -> f64 {
    body();
    let begin = Instant::now();
    let mut fastest = f64::INFINITY;
    let mut runs = 0;
    while runs < 3 || begin.elapsed().as_secs_f64() < 0.25 {
        if let Some(sweep) = SWEEP.get() {
            std::hint::black_box(sweep.iter().step_by(16).sum::<f32>());
        }
        let start = Instant::now();
        body();
        fastest = fastest.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    flops / fastest / 1e9
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|index| (index * 7919 % 1000) as f32 / 1000.0 - 0.5).collect()
}

fn gemm_speed(machine: &Machine, shape: &Gemm) -> f64 {
    let (a, b) = (numbers(shape.batch * shape.m * shape.k), numbers(shape.batch * shape.k * shape.n));
    let mut c = vec![0.0; shape.batch * shape.m * shape.n];
    best(2.0 * (shape.batch * shape.m * shape.n * shape.k) as f64, || gemm(machine, shape, &a, &b, &mut c))
}

fn elements(conv: &ConvGeometry) -> [usize; 3] {
    let x = conv.batch * conv.input[0] * conv.input[1] * conv.in_channels;
    let w = conv.kernel[0] * conv.kernel[1] * conv.group_inputs() * conv.out_channels;
    [x, w, conv.batch * conv.output[0] * conv.output[1] * conv.out_channels]
}

fn conv_speeds(machine: &Machine, conv: &ConvGeometry) -> [(&'static str, f64); 3] {
    let [mut x, mut w, mut y] = elements(conv).map(numbers);
    let forward = ForwardConv::new(conv);
    let data = ForwardConv::new(&conv.backward_data());
    let weights = WeightsGradient::new(conv);
    let flops = conv.flops();
    [
        ("forward", best(flops, || forward.run(machine, &x, Weights::hwio(&w, conv), &mut y, None))),
        ("data   ", best(flops, || data.run(machine, &y, Weights::transposed(&w, conv), &mut x, None))),
        ("weights", best(flops, || weights.run(machine, &x, &y, &mut w))),
    ]
}

fn bf16_speeds(machine: &Machine, conv: &ConvGeometry) -> [(&'static str, f64); 3] {
    let [mut x, w, mut y] = elements(conv).map(|len| numbers(len).into_iter().map(bf16::from_f32).collect::<Vec<_>>());
    let mut dw = numbers(w.len());
    let forward = ForwardConv::new(conv);
    let data = ForwardConv::new(&conv.backward_data());
    let weights = WeightsGradient::new(conv);
    let flops = conv.flops();
    [
        ("forward", best(flops, || forward.run_bf16(machine, &x, Weights::hwio(&w, conv), Output::Bf16(&mut y), None))),
        (
            "data   ",
            best(flops, || data.run_bf16(machine, &y, Weights::transposed(&w, conv), Output::Bf16(&mut x), None)),
        ),
        ("weights", best(flops, || weights.run_bf16(machine, &x, &y, Output::F32(&mut dw)))),
    ]
}

fn products() -> Vec<(&'static str, Gemm)> {
    vec![
        (
            "gemm 2048³ Aᵀ",
            Gemm { a: MatrixStrides::row_major(2048, 2048).transposed(), ..Gemm::row_major(2048, 2048, 2048) },
        ),
        (
            "gemm 2048³ Bᵀ",
            Gemm { b: MatrixStrides::row_major(2048, 2048).transposed(), ..Gemm::row_major(2048, 2048, 2048) },
        ),
        ("gemm 512³", Gemm::row_major(512, 512, 512)),
        ("gemm 1576×384 · 384×1536", Gemm::row_major(1576, 1536, 384)),
        ("gemm 1576×1536 · 1536×384", Gemm::row_major(1576, 384, 1536)),
        (
            "gemm 1576×1536 · (384×1536)ᵀ",
            Gemm { b: MatrixStrides::row_major(384, 1536).transposed(), ..Gemm::row_major(1576, 384, 1536) },
        ),
        (
            "gemm (1576×384)ᵀ · 1576×1536",
            Gemm { a: MatrixStrides::row_major(1576, 384).transposed(), ..Gemm::row_major(384, 1536, 1576) },
        ),
        ("gemm 197×384 · 384×1536", Gemm::row_major(197, 1536, 384)),
        ("gemm 128×10816 · 10816×10", Gemm::row_major(128, 10, 10816)),
        (
            "gemm (128×10816)ᵀ · 128×10",
            Gemm { a: MatrixStrides::row_major(128, 10816).transposed(), ..Gemm::row_major(10816, 10, 128) },
        ),
        (
            "gemm 128×10 · (10816×10)ᵀ",
            Gemm { b: MatrixStrides::row_major(10816, 10).transposed(), ..Gemm::row_major(128, 10816, 10) },
        ),
        ("gemm 16×2048 · 2048×1000", Gemm::row_major(16, 1000, 2048)),
        (
            "gemm 16×1000 · (2048×1000)ᵀ",
            Gemm { b: MatrixStrides::row_major(2048, 1000).transposed(), ..Gemm::row_major(16, 2048, 1000) },
        ),
        (
            "gemm (16×2048)ᵀ · 16×1000",
            Gemm { a: MatrixStrides::row_major(16, 2048).transposed(), ..Gemm::row_major(2048, 1000, 16) },
        ),
    ]
}

fn convolutions() -> Vec<(&'static str, ConvGeometry)> {
    let square = |batch, size, from, to, kernel: usize, stride| {
        ConvGeometry::new(batch, [size; 2], [from, to], [kernel; 2]).padded(kernel / 2, stride)
    };
    let depthwise = |batch, size, channels, kernel, stride| ConvGeometry {
        groups: channels,
        ..square(batch, size, channels, channels, kernel, stride)
    };
    vec![
        ("7×7 s2 3→64 224² b16", square(16, 224, 3, 64, 7, 2)),
        ("1×1 64→64 56² b16", square(16, 56, 64, 64, 1, 1)),
        ("3×3 64→64 56² b16", square(16, 56, 64, 64, 3, 1)),
        ("1×1 64→256 56² b16", square(16, 56, 64, 256, 1, 1)),
        ("1×1 256→64 56² b16", square(16, 56, 256, 64, 1, 1)),
        ("3×3 s2 128→128 56² b16", square(16, 56, 128, 128, 3, 2)),
        ("1×1 s2 256→512 56² b16", square(16, 56, 256, 512, 1, 2)),
        ("3×3 128→128 28² b16", square(16, 28, 128, 128, 3, 1)),
        ("3×3 256→256 14² b16", square(16, 14, 256, 256, 3, 1)),
        ("1×1 1024→256 14² b16", square(16, 14, 1024, 256, 1, 1)),
        ("3×3 512→512 7² b16", square(16, 7, 512, 512, 3, 1)),
        ("1×1 2048→512 7² b16", square(16, 7, 2048, 512, 1, 1)),
        ("1×1 512→2048 7² b16", square(16, 7, 512, 2048, 1, 1)),
        ("3×3 16→16 256² b4", square(4, 256, 16, 16, 3, 1)),
        ("1×1 16→32 256² b4", square(4, 256, 16, 32, 1, 1)),
        ("3×3 32→32 128² b4", square(4, 128, 32, 32, 3, 1)),
        ("3×3 48→16 256² b4", square(4, 256, 48, 16, 3, 1)),
        ("3×3 256→256 16² b4", square(4, 16, 256, 256, 3, 1)),
        ("3×3 s2 3→24 224² b8", square(8, 224, 3, 24, 3, 2)),
        ("3×3 24→24 112² b8", square(8, 112, 24, 24, 3, 1)),
        ("3×3 s2 24→96 112² b8", square(8, 112, 24, 96, 3, 2)),
        ("3×3 48→192 56² b8", square(8, 56, 48, 192, 3, 1)),
        ("1×1 160→960 14² b8", square(8, 14, 160, 960, 1, 1)),
        ("1×1 960→160 14² b8", square(8, 14, 960, 160, 1, 1)),
        ("1×1 192→48 56² b8", square(8, 56, 192, 48, 1, 1)),
        ("1×1 1536→256 7² b8", square(8, 7, 1536, 256, 1, 1)),
        ("1×1 256→1536 7² b8", square(8, 7, 256, 1536, 1, 1)),
        ("3×3 1→64 28² b128", ConvGeometry::new(128, [28, 28], [1, 64], [3, 3])),
        ("3×3 3→16 256² b4", square(4, 256, 3, 16, 3, 1)),
        ("1×1 16→1 256² b4", square(4, 256, 16, 1, 1, 1)),
        ("dw 3×3 256 28² b8", depthwise(8, 28, 256, 3, 1)),
        ("dw 3×3 s2 256 28² b8", depthwise(8, 28, 256, 3, 2)),
        ("dw 3×3 960 14² b8", depthwise(8, 14, 960, 3, 1)),
        ("dw 3×3 1536 7² b8", depthwise(8, 7, 1536, 3, 1)),
        ("dw 5×5 96 56² b8", depthwise(8, 56, 96, 5, 1)),
    ]
}
