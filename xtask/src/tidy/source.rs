//! Tokens of one Rust source file: the paths it uses, its re-exports, the lengths of its functions.
//! Code inside macro calls counts; code compiled only for tests does not.

use std::str::FromStr;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The imports and definitions of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    /// Paths that may lead to other modules, each with the module inside the file that uses it.
    pub(super) uses: Vec<(Vec<String>, Vec<String>)>,
    /// `pub use PATH as NAME`: the name and the path.
    pub(super) exports: Vec<(String, Vec<String>)>,
    /// Functions: name, first line, lines.
    pub(super) functions: Vec<(String, usize, usize)>,
    /// Functions that take a tuple, name and line: a struct would name what the tuple packs.
    pub(super) tuple_takers: Vec<(String, usize)>,
    /// Macros that print to a standard stream and panic when it is closed: name, line.
    pub(super) prints: Vec<(String, usize)>,
    /// Lines with texts that contain a `Debug` form: `{x:?}`.
    pub(super) debug_forms: Vec<usize>,
}

/// Macros that panic when their stream is closed or full.
const PRINTS: [&str; 4] = ["print", "println", "eprint", "eprintln"];

/// Reads a source text.
///
/// # Errors
/// A sentence if it is not Rust.
pub(super) fn read(content: &str) -> Result<Source, String> {
    let tokens = TokenStream::from_str(content).map_err(|e| format!("is not Rust: {e}"))?;
    let mut source = Source::default();
    scan(tokens, &mut Vec::new(), &mut source);
    Ok(source)
}

fn scan(tokens: TokenStream, inside: &mut Vec<String>, source: &mut Source) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < trees.len() {
        if is_test_only(&trees, at) {
            at = end_of_item(&trees, at + 2);
            continue;
        }
        let word = ident(trees.get(at));
        match word.as_deref() {
            Some("use") => {
                let public = is_public(&trees, at);
                at = scan_use(&trees, at + 1, public, inside, source);
                continue;
            }
            Some("mod") => {
                if let (Some(name), Some(TokenTree::Group(body))) =
                    (ident(trees.get(at + 1)), trees.get(at + 2))
                {
                    inside.push(name);
                    scan(body.stream(), inside, source);
                    inside.pop();
                    at += 3;
                    continue;
                }
            }
            // `pub(in PATH)` restricts visibility, and imports nothing.
            Some("pub") if is_visibility(trees.get(at + 1)) => {
                at += 2;
                continue;
            }
            Some("fn") => note_function(&trees, at, source),
            Some(name) if PRINTS.contains(&name) && is_punct(trees.get(at + 1), '!') => {
                let line = trees[at].span().start().line;
                source.prints.push((name.to_owned(), line));
            }
            Some(_) if !is_path_tail(&trees, at) && is_colons(&trees, at + 1) => {
                let mut path = vec![word.unwrap_or_default()];
                let mut next = at + 1;
                while is_colons(&trees, next)
                    && let Some(segment) = ident(trees.get(next + 2))
                {
                    path.push(segment);
                    next += 3;
                }
                source.uses.push((path, inside.clone()));
            }
            _ => {}
        }
        match trees.get(at) {
            Some(TokenTree::Group(group)) => scan(group.stream(), inside, source),
            Some(TokenTree::Literal(text)) if has_debug_form(&text.to_string()) => {
                source.debug_forms.push(text.span().start().line);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Whether a text, read as a format, contains a `Debug` form: `{NAME:SPEC}` with a specification
/// that ends with `?`.
fn has_debug_form(text: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    text.split('{').skip(1).any(|place| {
        let Some((inner, _)) = place.split_once('}') else {
            return false;
        };
        let Some((name, spec)) = inner.split_once(':') else {
            return false;
        };
        name.chars().all(is_name) && spec.ends_with('?')
    })
}

/// Reads the tree after `use` and returns the position after it.
fn scan_use(
    trees: &[TokenTree],
    mut at: usize,
    public: bool,
    inside: &[String],
    source: &mut Source,
) -> usize {
    let end = at
        + trees[at..]
            .iter()
            .take_while(|t| !is_punct(Some(t), ';'))
            .count();
    if is_colons(trees, at) {
        at += 2;
    }
    use_tree(&trees[at..end], &mut Vec::new(), &mut |path, name| {
        if public {
            source.exports.push((name, path));
        } else {
            source.uses.push((path, inside.to_vec()));
        }
    });
    end
}

fn use_tree(
    trees: &[TokenTree],
    prefix: &mut Vec<String>,
    found: &mut dyn FnMut(Vec<String>, String),
) {
    let depth = prefix.len();
    let mut at = 0;
    while at < trees.len() {
        match trees.get(at) {
            Some(TokenTree::Ident(_)) => {
                prefix.extend(ident(trees.get(at)));
                if is_colons(trees, at + 1) {
                    at += 3;
                    continue;
                }
                let renamed = match ident(trees.get(at + 1)).as_deref() {
                    Some("as") => {
                        at += 2;
                        ident(trees.get(at))
                    }
                    _ => None,
                };
                if prefix.last().is_some_and(|last| last == "self") && prefix.len() > 1 {
                    prefix.pop();
                }
                let name = renamed
                    .or_else(|| prefix.last().cloned())
                    .unwrap_or_default();
                found(prefix.clone(), name);
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for part in inner.split(|t| is_punct(Some(t), ',')) {
                    use_tree(part, prefix, found);
                }
            }
            Some(tree) if is_punct(Some(tree), '*') => {
                let mut path = prefix.clone();
                path.push("*".to_owned());
                found(path, "*".to_owned());
            }
            _ => {}
        }
        at += 1;
    }
    prefix.truncate(depth);
}

fn note_function(trees: &[TokenTree], at: usize, source: &mut Source) {
    let Some(name) = ident(trees.get(at + 1)) else {
        return;
    };
    if takes_tuple(&trees[at..]) {
        let line = trees[at].span().start().line;
        source.tuple_takers.push((name.clone(), line));
    }
    let body = trees[at..]
        .iter()
        .take_while(|tree| !is_punct(Some(tree), ';'))
        .find_map(|tree| match tree {
            TokenTree::Group(g) if g.delimiter() == Delimiter::Brace => Some(g),
            _ => None,
        });
    if let Some(body) = body {
        let first = trees[at].span().start().line;
        let last = body.span_close().end().line;
        source.functions.push((name, first, last + 1 - first));
    }
}

/// Whether the function that begins here has a parameter `name: (A, B)`, borrowed or not.
fn takes_tuple(trees: &[TokenTree]) -> bool {
    // Type parameters may contain parentheses: `<F: Fn(A) -> B>`.
    let mut depth = 0;
    let mut is_arrow = false;
    let list = trees.iter().find_map(|tree| {
        match tree {
            TokenTree::Punct(p) if p.as_char() == '<' => depth += 1,
            TokenTree::Punct(p) if p.as_char() == '>' && !is_arrow => depth -= 1,
            TokenTree::Group(g) if depth == 0 && g.delimiter() == Delimiter::Parenthesis => {
                return Some(g);
            }
            _ => {}
        }
        is_arrow = is_punct(Some(tree), '-');
        None
    });
    let Some(list) = list else {
        return false;
    };
    let parameters: Vec<TokenTree> = list.stream().into_iter().collect();
    parameters.iter().enumerate().any(|(at, tree)| {
        is_punct(Some(tree), ':')
            && !is_colons(&parameters, at)
            && (at == 0 || !is_colons(&parameters, at - 1))
            && is_tuple(&parameters[at + 1..])
    })
}

/// Whether the type is a tuple of at least two, possibly after `&`, a lifetime and `mut`.
fn is_tuple(mut trees: &[TokenTree]) -> bool {
    if is_punct(trees.first(), '&') {
        trees = &trees[1..];
        if is_punct(trees.first(), '\'') {
            trees = trees.get(2..).unwrap_or(&[]);
        }
        if ident(trees.first()).is_some_and(|word| word == "mut") {
            trees = &trees[1..];
        }
    }
    let Some(TokenTree::Group(group)) = trees.first() else {
        return false;
    };
    group.delimiter() == Delimiter::Parenthesis
        && group
            .stream()
            .into_iter()
            .any(|tree| is_punct(Some(&tree), ','))
}

/// Whether `#[cfg(test)]` or `#[test]` begins here.
fn is_test_only(trees: &[TokenTree], at: usize) -> bool {
    let Some(TokenTree::Group(group)) = trees.get(at + 1) else {
        return false;
    };
    let text = group.stream().to_string().replace(' ', "");
    is_punct(trees.get(at), '#')
        && (text == "test" || text.starts_with("cfg(test") || text.starts_with("cfg(all(test"))
}

/// The position after the item that begins at `at`: after its body or its semicolon.
fn end_of_item(trees: &[TokenTree], mut at: usize) -> usize {
    while let Some(tree) = trees.get(at) {
        at += 1;
        match tree {
            TokenTree::Group(g) if g.delimiter() == Delimiter::Brace => return at,
            tree if is_punct(Some(tree), ';') => return at,
            _ => {}
        }
    }
    at
}

fn is_public(trees: &[TokenTree], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|i| trees.get(i));
    let is_pub = |tree: Option<&TokenTree>| ident(tree).is_some_and(|word| word == "pub");
    is_pub(before(1)) || (matches!(before(1), Some(TokenTree::Group(_))) && is_pub(before(2)))
}

/// The `(in PATH)` of `pub(in PATH)`.
fn is_visibility(tree: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = tree else {
        return false;
    };
    ident(group.stream().into_iter().next().as_ref()).is_some_and(|word| word == "in")
}

fn is_path_tail(trees: &[TokenTree], at: usize) -> bool {
    at >= 2 && is_colons(trees, at - 2)
}

fn is_colons(trees: &[TokenTree], at: usize) -> bool {
    let joint = |p: &proc_macro2::Punct| p.as_char() == ':' && p.spacing() == Spacing::Joint;
    matches!(trees.get(at), Some(TokenTree::Punct(p)) if joint(p))
        && is_punct(trees.get(at + 1), ':')
}

fn is_punct(tree: Option<&TokenTree>, wanted: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(p)) if p.as_char() == wanted)
}

fn ident(tree: Option<&TokenTree>) -> Option<String> {
    match tree {
        Some(TokenTree::Ident(word)) => Some(word.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split("::").map(str::to_owned).collect()
    }

    #[test]
    fn paths_of_uses_expressions_and_macros_are_seen_and_those_of_tests_are_not() {
        let source = read(
            "use crate::a::{self, B, c::{D as E, *}};\n\
             pub(crate) use inner::Thing;\n\
             fn f() -> super::x::Y { call!(crate::m::n(1), other) }\n\
             mod deep { fn g() { super::h(); } }\n\
             #[cfg(test)]\nmod tests { use crate::never::Seen; }\n",
        )
        .unwrap();
        let uses: Vec<String> = source
            .uses
            .iter()
            .map(|(path, _)| path.join("::"))
            .collect();
        assert_eq!(
            uses,
            [
                "crate::a",
                "crate::a::B",
                "crate::a::c::D",
                "crate::a::c::*",
                "super::x::Y",
                "crate::m::n",
                "super::h"
            ]
        );
        assert_eq!(source.uses[6].1, path("deep"));
        assert_eq!(source.exports, [("Thing".to_owned(), path("inner::Thing"))]);
    }

    #[test]
    fn who_may_see_an_item_is_no_use() {
        let source =
            read("pub(in crate::a::b) struct S(pub(in super::c) T, pub (super::d::E, U));");
        let uses = source.unwrap().uses;
        assert_eq!(uses, [(path("super::d::E"), Vec::new())]);
    }

    #[test]
    fn tuples_as_parameters_are_seen_and_those_of_closures_and_results_are_not() {
        let source = read(
            "fn a(x: (u8, u8)) {}\n\
             fn b<'a>(&self, n: u8, x: &'a mut (A<B, C>, D)) -> u8 { 1 }\n\
             fn c(f: impl Fn((u8, u8))) -> (u8, u8) { (1, 2) }\n\
             fn d(x: Option<(u8, u8)>, y: (u8), z: ()) {}\n\
             fn e<F: Fn((u8, u8)) -> u8>(f: F) {}\n\
             fn g<F: Fn(u8) -> u8>(f: F, x: &(u8, F)) {}\n",
        );
        let expected = [("a", 1), ("b", 2), ("g", 6)].map(|(name, line)| (name.to_owned(), line));
        assert_eq!(source.unwrap().tuple_takers, expected);
    }

    #[test]
    fn macros_that_print_are_seen_and_those_of_tests_are_not() {
        let source = read(
            "fn f() {\n    run(|| eprintln!(\"x\"));\n    let print = 1;\n}\n\
             #[cfg(test)]\nmod tests { fn g() { println!() } }\n",
        );
        assert_eq!(source.unwrap().prints, [("eprintln".to_owned(), 2)]);
    }

    #[test]
    fn places_of_debug_forms_are_seen_in_texts_and_not_in_tests() {
        let source = read(
            "fn f() {\n    bail!(1, \"{a} is {b:?}\");\n    m!(\"{:?}\", r#\"{x:#?} {:02x?}\"#);\n\
             g(\"{a: 1}? {x:>4} {{a: ?\");\n}\n\
             #[cfg(test)]\nmod tests { fn g() { m!(\"{v:?}\") } }\n",
        );
        assert_eq!(source.unwrap().debug_forms, [2, 3, 3]);
    }

    #[test]
    fn functions_are_measured_with_their_signature() {
        let source = read("fn one() {}\n\nimpl X {\n    fn two(\n    ) {\n        1;\n    }\n}\n");
        let expected = [("one".to_owned(), 1, 1), ("two".to_owned(), 4, 4)];
        assert_eq!(source.unwrap().functions, expected);
    }
}
