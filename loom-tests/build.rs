//! Chooses loom behind the model's sync layer: no flags, no feature that would unify with the other build.

fn main() {
    println!("cargo::rustc-cfg=model_loom");
    println!("cargo::rerun-if-changed=build.rs");
}
