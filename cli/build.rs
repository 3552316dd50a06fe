//! Notes the commit that is built, if it can be known, and takes the corpus into the program.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_string())
}

/// Writes a table (name, text) of the KDL files in a folder of the corpus, sorted by name.
fn table(out: &mut String, name: &str, dir: &Path) {
    println!("cargo::rerun-if-changed={}", dir.display());
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    let mut files: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|x| x == "kdl")).collect();
    files.sort();
    let _ = writeln!(out, "/// Files of the corpus by name, and their text.\npub const {name}: &[(&str, &str)] = &[");
    for f in files {
        let stem = f.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(out, "    ({stem:?}, include_str!({:?})),", f.display().to_string());
    }
    let _ = writeln!(out, "];");
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for what in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", what]).filter(|p| Path::new(p).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=WBCHECK_COMMIT={commit}");
    }
    let var = |v: &str| PathBuf::from(std::env::var_os(v).expect("cargo sets it"));
    let corpus = var("CARGO_MANIFEST_DIR").join("../corpus");
    let mut out = String::new();
    table(&mut out, "CASES", &corpus.join("cases"));
    table(&mut out, "RULES", &corpus.join("rules"));
    std::fs::write(var("OUT_DIR").join("corpus.rs"), out).expect("the build directory can be written");
}
