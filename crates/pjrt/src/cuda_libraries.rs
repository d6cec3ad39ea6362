//! NVIDIA's libraries beside a CUDA plugin.
//!
//! The CUDA plugin opens cuBLAS, cuDNN and their kin by bare name when it first needs them. The pip packages put them
//! into `site-packages/nvidia/*/lib`, where the dynamic loader does not look, so they are loaded here beforehand by full
//! path: a later request for the bare name then finds them. Where the packages are missing nothing is done, and the
//! loader searches the system as usual.

use std::path::{Path, PathBuf};

/// Folder below `nvidia/` and library, in an order in which each one's own needs come first. The CUDA 13 packages share
/// one folder, the CUDA 12 packages have one each.
const LIBRARIES: [(&str, &str); 21] = [
    ("cuda_runtime", "libcudart.so.12"),
    ("cu13", "libcudart.so.13"),
    ("nvjitlink", "libnvJitLink.so.12"),
    ("cu13", "libnvJitLink.so.13"),
    ("cuda_nvrtc", "libnvrtc.so.12"),
    ("cu13", "libnvrtc.so.13"),
    ("cublas", "libcublasLt.so.12"),
    ("cublas", "libcublas.so.12"),
    ("cu13", "libcublasLt.so.13"),
    ("cu13", "libcublas.so.13"),
    ("nccl", "libnccl.so.2"),
    ("cuda_cupti", "libcupti.so.12"),
    ("cu13", "libcupti.so.13"),
    ("cusparse", "libcusparse.so.12"),
    ("cu13", "libcusparse.so.12"),
    ("cusolver", "libcusolver.so.11"),
    ("cu13", "libcusolver.so.12"),
    ("cufft", "libcufft.so.11"),
    ("cu13", "libcufft.so.12"),
    ("nvshmem", "libnvshmem_host.so.3"),
    ("cudnn", "libcudnn.so.9"),
];

/// Loads the libraries of the `nvidia` packages that lie in the same site-packages as the plugin, and returns the
/// folder there that XLA calls the CUDA root. Does nothing for other plugins.
pub(crate) fn preload_beside(plugin: &Path) -> Option<PathBuf> {
    if plugin.file_name()? != "xla_cuda_plugin.so" {
        return None;
    }
    // site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so
    let nvidia = plugin.ancestors().nth(3)?.join("nvidia");
    for (folder, library) in LIBRARIES {
        let path = nvidia.join(folder).join("lib").join(library);
        if path.is_file() {
            load_for_everybody(&path);
        }
    }
    if let Some(root) = std::env::var_os("CUDA_ROOT") {
        return Some(PathBuf::from(root));
    }
    cuda_root_in(&nvidia)
}

/// The package folder with the compiler's parts: CUDA 13 has one folder for everything, CUDA 12 one for nvcc.
fn cuda_root_in(nvidia: &Path) -> Option<PathBuf> {
    let has_compiler = |root: &PathBuf| root.join("nvvm").is_dir() || root.join("bin/ptxas").is_file();
    ["cu13", "cuda_nvcc"].map(|folder| nvidia.join(folder)).into_iter().find(has_compiler)
}

/// Loads a library for good, visible to all that come later. A failure is not reported here: it would be a guess, while
/// the plugin itself reports precisely what it misses once it needs it.
fn load_for_everybody(path: &Path) {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};
    // SAFETY: loading runs the initializers of NVIDIA's libraries, which the plugin would run a moment later anyway.
    if let Ok(library) = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_GLOBAL) } {
        std::mem::forget(library);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_folder_with_the_compiler_is_the_cuda_root() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("cu13/lib")).unwrap();
        assert_eq!(cuda_root_in(folder.path()), None, "libraries alone are no compiler");
        fs::create_dir_all(folder.path().join("cuda_nvcc/nvvm/libdevice")).unwrap();
        assert_eq!(cuda_root_in(folder.path()), Some(folder.path().join("cuda_nvcc")));
        fs::create_dir_all(folder.path().join("cu13/nvvm/libdevice")).unwrap();
        assert_eq!(cuda_root_in(folder.path()), Some(folder.path().join("cu13")));
    }

    #[test]
    fn other_plugins_are_left_alone() {
        assert_eq!(preload_beside(Path::new("/site-packages/libtpu/libtpu.so")), None);
    }
}
