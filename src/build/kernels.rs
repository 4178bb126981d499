//! The kernels' text as one file, and NVIDIA's compiler. The build script and the tests share this.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Compute capabilities that machine code is made for; newer ones translate the oldest one's PTX.
pub const ARCHITECTURES: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];

/// How kernels are compiled, besides what they are compiled for. The search allows no contraction and
/// no flush to zero.
pub const FLAGS: [&str; 6] = ["-std=c++17", "-O3", "--fmad=false", "--ftz=false", "-Werror", "all-warnings"];

/// The files of kernels, in order.
pub fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension().and_then(|extension| extension.to_str()).is_some_and(|it| extensions.contains(&it))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// The files as one text: each `#include "name"` gives way to the file `name` of `folder`, the first
/// time. Messages of compilers name the files as `kernels/name`.
pub fn join(folder: &Path, files: &[PathBuf]) -> Result<String, String> {
    let (mut seen, mut text) = (Vec::new(), String::new());
    for file in files {
        add(folder, file, &mut seen, &mut text)?;
    }
    Ok(text)
}

fn add(folder: &Path, file: &Path, seen: &mut Vec<PathBuf>, text: &mut String) -> Result<(), String> {
    if seen.iter().any(|other| other == file) {
        return Ok(());
    }
    seen.push(file.to_path_buf());
    let name = file.strip_prefix(folder).unwrap_or(file).display().to_string();
    let lines = fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    text.push_str(&format!("#line 1 \"kernels/{name}\"\n"));
    for (at, line) in lines.lines().enumerate() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(included) => {
                add(folder, &folder.join(included), seen, text)?;
                text.push_str(&format!("#line {} \"kernels/{name}\"\n", at + 2));
            }
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    Ok(())
}

/// nvcc, as `NVCC`, `CUDA_HOME`, the path or the usual place name it.
pub fn nvcc() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(named) = set("NVCC") {
        return Some(named.into());
    }
    let folders = set("CUDA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path: OsString = set("PATH").unwrap_or_default();
    let folders = folders.into_iter().chain(std::env::split_paths(&path)).chain(["/usr/local/cuda/bin".into()]);
    folders.map(|folder| folder.join("nvcc")).find(|file| file.is_file())
}
