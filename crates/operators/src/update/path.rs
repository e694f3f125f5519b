//! Update paths: names, `$`, `$[]`, `$[id]`.

use model::{Result, bail, code};

/// One component.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Name(String),
    /// `$`
    Positional,
    /// `$[]`
    All,
    /// `$[id]`
    Filtered(String),
}

/// Most components: no stored document is nested more deeply.
const MAX_PARTS: usize = 255;

/// Splits and checks a path.
///
/// # Errors
/// 15 too long, 56 empty path or component, 2 misplaced or malformed positional component.
/// Dollar-prefixed names are checked on the result.
pub(super) fn parse(path: &str) -> Result<Vec<Part>> {
    if path.is_empty() {
        bail!(code::EMPTY_FIELD_NAME, "An empty update path is not valid.");
    }
    if path.bytes().filter(|b| *b == b'.').count() >= MAX_PARTS {
        bail!(
            code::OVERFLOW,
            "the update path is too long: at most {MAX_PARTS} components are allowed"
        );
    }
    let mut parts = Vec::new();
    for (i, name) in path.split('.').enumerate() {
        let part = match name {
            "" => bail!(
                code::EMPTY_FIELD_NAME,
                "The update path '{path}' contains an empty field name, which is not allowed."
            ),
            "$" => Part::Positional,
            "$[]" => Part::All,
            n if n.starts_with("$[") && n.ends_with(']') => {
                let id = &n[2..n.len() - 1];
                let valid = id.starts_with(|c: char| c.is_ascii_lowercase())
                    && id.chars().all(|c| c.is_ascii_alphanumeric());
                if !valid {
                    bail!(
                        code::BAD_VALUE,
                        "Cannot use '{n}' in '{path}': an array filter identifier begins with a \
                            lowercase letter and has \
                         only letters and digits"
                    );
                }
                Part::Filtered(id.to_owned())
            }
            n => Part::Name(n.to_owned()),
        };
        if i == 0 && !matches!(part, Part::Name(_)) {
            bail!(
                code::BAD_VALUE,
                "Cannot have array filter or positional element in the first position in path \
                    '{path}'"
            );
        }
        parts.push(part);
    }
    if parts.iter().filter(|p| **p == Part::Positional).count() > 1 {
        bail!(
            code::BAD_VALUE,
            "Too many positional (i.e. '$') elements found in path '{path}'"
        );
    }
    Ok(parts)
}

/// The order in which new fields are added to a document: numbers by value, names bytewise; names
/// that only begin with a digit come after all numbers, else the order would have cycles (9, 10,
/// 5a).
pub(super) fn field_order(a: &str, b: &str) -> std::cmp::Ordering {
    use model::path::array_index;
    let digit = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
    match (array_index(a), array_index(b)) {
        (Some(x), Some(y)) => x.cmp(&y),
        (Some(_), None) if digit(b) => std::cmp::Ordering::Less,
        (None, Some(_)) if digit(a) => std::cmp::Ordering::Greater,
        _ => a.cmp(b),
    }
}
