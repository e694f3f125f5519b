//! Chores of the repository: `tidy` checks what the compiler cannot.
fn main() {
    println!("usage: cargo run -p xtask -- tidy");
}
