//! The source text of a function: a function, an arrow function, an expression, or statements. Must
//! not know: the engine.

/// The texts to evaluate, in order, until one is not a syntax error; each evaluates to a function.
pub(crate) fn candidates(text: &str) -> Vec<String> {
    let text = skip_comments(text);
    let body = format!("(function() {{ {text}\n}})");
    let text = text.trim_end_matches([';', ' ', '\t', '\n', '\r']);
    if is_function(text) {
        return vec![format!("({text}\n)"), body];
    }
    let expression = format!("(function() {{ return (\n{text}\n); }})");
    if text.is_empty() {
        return vec![body];
    }
    vec![expression, body]
}

/// The text without leading white space and comments.
fn skip_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let after = if let Some(line) = rest.strip_prefix("//") {
            line.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(block) = rest.strip_prefix("/*") {
            block.split_once("*/").map_or("", |(_, after)| after)
        } else {
            return rest;
        };
        rest = after.trim_start();
    }
}

fn is_function(text: &str) -> bool {
    let text = match text.strip_prefix("async") {
        Some(rest) if rest.starts_with([' ', '\t', '\n', '(']) => rest.trim_start(),
        _ => text,
    };
    if let Some(rest) = text.strip_prefix("function") {
        return !rest.starts_with(is_word);
    }
    let name = text.trim_start_matches(is_word);
    if name.len() < text.len() {
        return name.trim_start().starts_with("=>");
    }
    // Parameters in parentheses, followed by an arrow.
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return c == ')' && text[at + 1..].trim_start().starts_with("=>");
        }
    }
    false
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// Names of properties that every object has: a script that uses one may mean that property.
const OF_ALL_OBJECTS: &[&str] = &[
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
    "toJSON",
];

/// Words by which a script may use its document in other ways than `this.name`.
const OPAQUE: &[&str] = &[
    "eval",
    "Function",
    "arguments",
    "globalThis",
    "with",
    "super",
    "caller",
    "constructor",
];

/// The fields of its document (`this`, `obj`) that a script can use; `None` if the text does not
/// show that.
///
/// Only `this.name` and `obj.name` are recognized. Any other use of either, and any way to run a
/// text as code, makes the script need the whole document.
pub(crate) fn fields_read(text: &str) -> Option<Vec<String>> {
    if text.contains("\\u") || text.contains("\\x") {
        return None;
    }
    let mut fields: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let word_on = &rest[start..];
        let end = word_on.find(|c| !is_word(c)).unwrap_or(word_on.len());
        let (word, after) = word_on.split_at(end);
        rest = after;
        if OPAQUE.contains(&word) {
            return None;
        }
        if word != "this" && word != "obj" {
            continue;
        }
        let after = after.trim_start();
        let after = after.strip_prefix("?.").or(after.strip_prefix('.'))?;
        let after = after.trim_start();
        let end = after.find(|c| !is_word(c)).unwrap_or(after.len());
        let (name, next) = after.split_at(end);
        if name.is_empty() || name.starts_with("__") || OF_ALL_OBJECTS.contains(&name) {
            return None;
        }
        if !fields.iter().any(|f| f == name) {
            fields.push(name.to_owned());
        }
        rest = next;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_from_expressions() {
        for text in [
            "function() { return 1 }",
            "  function f(a) {}",
            "function(x){};",
            "async function() {}",
            "x => x",
            "$a=>1",
            "(a, b) => a + b",
            "(a = (1 + 2)) => { return a }",
            "() =>\n 1",
            "// why\n /* and how */ function() {}",
        ] {
            assert!(candidates(text)[0].starts_with(['(']), "{text}");
            assert!(!candidates(text)[0].contains("return (\n"), "{text}");
        }
        for text in [
            "this.a > 1",
            "(this.a) > (1)",
            "functions.length",
            "a == b",
            "(1)",
        ] {
            assert!(candidates(text)[0].contains("return (\n"), "{text}");
        }
        assert_eq!(candidates("").len(), 1);
    }

    #[test]
    fn fields_are_read_from_the_text_or_all_are() {
        let some = |text: &str| fields_read(text).map(|f| f.join(" "));
        assert_eq!(
            some("this.a > this . b && obj.c.d == this?.a"),
            Some("a b c".into())
        );
        assert_eq!(some("function() { return true }"), Some(String::new()));
        for text in [
            "f(this)",
            "this['a']",
            "var {a} = this; a",
            "for (k in obj) {}",
            "this.hasOwnProperty('a')",
            "eval('th' + 'is.a')",
            "(0, globalThis.x)",
            "'\\u0074his'",
            "this.__proto__",
            "x.constructor('return 1')()",
            "// is this all",
        ] {
            assert_eq!(some(text), None, "{text}");
        }
        assert_eq!(some("thisX.a + this.b"), Some("b".into()));
    }
}
