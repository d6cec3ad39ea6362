//! The loops over a block that all instructions are made of, and how one is compiled for an instruction set.

use super::Operands;

/// Elements handled together: the compiler keeps them in vector registers.
const GROUP: usize = 32;

/// The same number, of which the compiler knows nothing. Without it the compiler takes the loop over groups for the one
/// to vectorize, and gathers the first elements of many groups, then their second elements, and so on.
#[inline(always)]
pub(super) fn opaque(done: usize) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut done = done;
        // SAFETY: the assembly is a comment.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) done, options(pure, nomem, nostack, preserves_flags)) };
        done
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::hint::black_box(done)
}

/// Computes a group, then writes it. A plain loop: `from_fn` of a long function is not inlined, and then compiled for the
/// least of all machines.
///
/// # Safety
/// `to` is valid for a group.
#[inline(always)]
unsafe fn write_group<R: Copy>(to: *mut R, f: impl Fn(usize) -> R) {
    let mut group = std::mem::MaybeUninit::<[R; GROUP]>::uninit();
    let first = group.as_mut_ptr().cast::<R>();
    // SAFETY: every element of the group is written before it is read; `to` is the caller's promise.
    unsafe {
        for i in 0..GROUP {
            first.add(i).write(f(i));
        }
        to.cast::<[R; GROUP]>().write_unaligned(group.assume_init());
    }
}

/// Reads a group before it writes one, so that a result may lie over its own operand.
#[inline(always)]
pub(super) unsafe fn map1<A: Copy, R: Copy>(o: Operands, f: impl Fn(A) -> R) {
    let (a, to) = (o.from[0].cast::<A>(), o.to.cast::<R>());
    let mut done = 0;
    // SAFETY: every access is below `count`.
    unsafe {
        while done + GROUP <= o.count {
            let x = a.add(done).cast::<[A; GROUP]>().read_unaligned();
            write_group(to.add(done), |i| f(x[i]));
            done = opaque(done + GROUP);
        }
        while done < o.count {
            *to.add(done) = f(*a.add(done));
            done += 1;
        }
    }
}

#[inline(always)]
pub(super) unsafe fn map2<A: Copy, R: Copy>(o: Operands, f: impl Fn(A, A) -> R) {
    let (a, b, to) = (o.from[0].cast::<A>(), o.from[1].cast::<A>(), o.to.cast::<R>());
    let mut done = 0;
    // SAFETY: every access is below `count`.
    unsafe {
        while done + GROUP <= o.count {
            let x = a.add(done).cast::<[A; GROUP]>().read_unaligned();
            let y = b.add(done).cast::<[A; GROUP]>().read_unaligned();
            write_group(to.add(done), |i| f(x[i], y[i]));
            done = opaque(done + GROUP);
        }
        while done < o.count {
            *to.add(done) = f(*a.add(done), *b.add(done));
            done += 1;
        }
    }
}

#[inline(always)]
pub(super) unsafe fn map3<A: Copy, B: Copy>(o: Operands, f: impl Fn(A, B, B) -> B) {
    let (a, b, c, to) = (o.from[0].cast::<A>(), o.from[1].cast::<B>(), o.from[2].cast::<B>(), o.to.cast::<B>());
    let mut done = 0;
    // SAFETY: every access is below `count`.
    unsafe {
        while done + GROUP <= o.count {
            let x = a.add(done).cast::<[A; GROUP]>().read_unaligned();
            let y = b.add(done).cast::<[B; GROUP]>().read_unaligned();
            let z = c.add(done).cast::<[B; GROUP]>().read_unaligned();
            write_group(to.add(done), |i| f(x[i], y[i], z[i]));
            done = opaque(done + GROUP);
        }
        while done < o.count {
            *to.add(done) = f(*a.add(done), *b.add(done), *c.add(done));
            done += 1;
        }
    }
}

/// The instance of a one-off kernel for the instruction set.
macro_rules! entry {
    ($simd:expr, $map:ident, $($closure:tt)*) => {{
        struct Instance;
        impl Kernel for Instance {
            type Args = Operands;
            type Output = ();
            #[inline(always)]
            unsafe fn run<V: Vector>(operands: Operands) {
                // SAFETY: the caller's promise is that of `Run`.
                unsafe { $map(operands, $($closure)*) }
            }
        }
        $simd.entry::<Instance>()
    }};
}

/// The same for lane types that networks hardly use: compiled once, for every machine.
macro_rules! plain {
    ($map:ident, $($closure:tt)*) => {{
        unsafe fn instance(operands: Operands) {
            // SAFETY: the caller's promise is that of `Run`.
            unsafe { $map(operands, $($closure)*) }
        }
        instance as Run
    }};
}
