//! Notes the commit that is built, if it can be known, and takes the corpus and the names of mirrored functions into the program.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_string())
}

/// Writes a table (name, text) of the files of a kind in a folder of the corpus, sorted; KDL files without their extension.
fn table(out: &mut String, name: &str, dir: &Path, kind: &str) {
    println!("cargo::rerun-if-changed={}", dir.display());
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    let mut files: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|x| x == kind)).collect();
    files.sort();
    let _ = writeln!(out, "/// Files of the corpus by name, and their text.\npub const {name}: &[(&str, &str)] = &[");
    for f in files {
        let stem = if kind == "kdl" { f.file_stem() } else { f.file_name() }.unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(out, "    ({stem:?}, include_str!({:?})),", f.display().to_string());
    }
    let _ = writeln!(out, "];");
}

/// Kernel functions that mirrored text enters: what `kfn!` names below a folder.
fn functions(names: &mut BTreeSet<String>, dir: &Path) {
    for path in std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()) {
        if path.is_dir() {
            functions(names, &path);
        } else if path.extension().is_some_and(|x| x == "rs") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let word = |s: &str| s.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
            names.extend(text.split("kfn!(").skip(1).map(word).filter(|n| !n.is_empty()));
        }
    }
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
    table(&mut out, "CASES", &corpus.join("cases"), "kdl");
    table(&mut out, "RULES", &corpus.join("rules"), "kdl");
    table(&mut out, "VECTORS", &corpus.join("vectors"), "csv");
    table(&mut out, "SCENARIOS", &corpus.join("scenarios"), "kdl");
    let linux = var("CARGO_MANIFEST_DIR").join("../model/src/linux");
    println!("cargo::rerun-if-changed={}", linux.display());
    let mut names = BTreeSet::new();
    functions(&mut names, &linux);
    let _ = writeln!(out, "/// Kernel functions that the model mirrors, sorted.\npub const FUNCTIONS: &[&str] = &{:?};", names.iter().collect::<Vec<_>>());
    std::fs::write(var("OUT_DIR").join("corpus.rs"), out).expect("the build directory can be written");
}
