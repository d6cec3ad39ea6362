//! Compiling a loop for the vector units that are really there.

/// Defines a function whose body is compiled for the baseline and, on x86-64, once more for AVX2 and for AVX-512; the best
/// one is chosen at run time. The body is ordinary Rust that the compiler vectorizes; it must not depend on which one runs,
/// and it does not, because Rust never contracts or reorders floating-point operations by itself.
#[macro_export]
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $type),*) {
            #[inline(always)]
            fn body($($arg: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $type),*) {
                    body($($arg),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn widest($($arg: $type),*) {
                    body($($arg),*)
                }
                if std::is_x86_feature_detected!("avx512bw")
                    && std::is_x86_feature_detected!("avx512dq")
                    && std::is_x86_feature_detected!("avx512vl")
                    && std::is_x86_feature_detected!("fma")
                {
                    // SAFETY: the processor has all that `widest` requires; AVX-512BW implies AVX-512F and AVX2.
                    return unsafe { widest($($arg),*) };
                }
                if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has AVX2 and FMA, which is all that `wide` requires.
                    return unsafe { wide($($arg),*) };
                }
            }
            body($($arg),*)
        }
    };
}

pub(crate) use vectorized;
