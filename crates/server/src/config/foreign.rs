//! Options of mongod that Quarry does not have, on the command line and in the file. An option
//! whose absence changes nothing that the user can rely on is ignored with a warning. The others
//! are refused by name, with what to use instead. An option in neither list is unknown.
//!
//! Promises: one table for both ways to give an option. Must not know: Quarry's own options.

use std::ffi::OsString;
use std::sync::LazyLock;

use serde_yaml_ng::{Mapping, Value};

use super::error_line::one_line;

/// What happens to an option.
#[derive(Debug, PartialEq, Eq)]
enum OptionAction {
    /// Ignored with a warning.
    LeftOut,
    /// Ignored if it has no value or only values of this list; otherwise refused, with what to do
    /// instead.
    LeftOutWith(Vec<&'static str>, &'static str),
    /// Refused; the text says what to do instead.
    Refused(&'static str),
}

/// An option.
#[derive(Debug)]
struct Row {
    option: &'static str,
    /// Its place in the file; empty if it has none there.
    key: &'static str,
    has_value: bool,
    answer: OptionAction,
}

/// The table of options; the file describes its own format.
const LIST: &str = include_str!("foreign.txt");

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| LIST.lines().filter_map(read).collect());

/// Parses a line of the table; `None` for a comment.
fn read(line: &'static str) -> Option<Row> {
    if line.starts_with('#') {
        return None;
    }
    let mut columns = line.splitn(5, '|').map(str::trim);
    let (option, key) = (columns.next()?, columns.next()?);
    let has_value = columns.next()? == "value";
    let (answer, instead) = (columns.next()?, columns.next().unwrap_or(""));
    let answer = match answer.strip_prefix("left out with ") {
        Some(values) => OptionAction::LeftOutWith(values.split(',').collect(), instead),
        None if answer == "left out" => OptionAction::LeftOut,
        None => OptionAction::Refused(instead),
    };
    Some(Row {
        option,
        key: key.strip_prefix('-').unwrap_or(key),
        has_value,
        answer,
    })
}

fn refusal(name: &str, value: Option<&str>, instead: &str) -> String {
    let given = value.map_or_else(String::new, |value| format!(" {value}"));
    one_line(&format!(
        "{name}{given} of mongod is not supported: {instead}"
    ))
}

/// Returns an error if the option is refused with this value.
fn judge(row: &Row, shown: &str, value: Option<&str>) -> Result<(), String> {
    match &row.answer {
        OptionAction::LeftOut => Ok(()),
        OptionAction::LeftOutWith(values, instead) => {
            let parts = value.unwrap_or("").split(',').map(str::trim);
            let is_known = |part: &str| part.is_empty() || values.contains(&part);
            match parts.into_iter().all(is_known) {
                true => Ok(()),
                false => Err(refusal(shown, value, instead)),
            }
        }
        OptionAction::Refused(instead) => Err(refusal(shown, value, instead)),
    }
}

/// Removes the ignored options from the words of a command line; returns their names.
///
/// # Errors
/// One line: an option that is refused.
pub fn leave_out(words: &mut Vec<OsString>) -> Result<Vec<String>, String> {
    let mut left_out = Vec::new();
    let mut kept = Vec::new();
    let mut all = std::mem::take(words).into_iter().peekable();
    while let Some(word) = all.next() {
        let text = word.to_string_lossy().into_owned();
        let named = text
            .strip_prefix("--")
            .map(|rest| match rest.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (rest, None),
            });
        let found = named.and_then(|(name, value)| {
            let row = TABLE.iter().find(|row| row.option == name)?;
            Some((row, value))
        });
        let Some((row, mut value)) = found else {
            kept.push(word);
            continue;
        };
        // A next word that is an option is not a value: the option was given without one.
        let is_value = |next: &OsString| !next.to_string_lossy().starts_with("--");
        if row.has_value && value.is_none() {
            let next = all.next_if(is_value);
            value = next.map(|next| next.to_string_lossy().into_owned());
        }
        let shown = format!("--{}", row.option);
        judge(row, &shown, value.as_deref())?;
        left_out.push(shown);
    }
    *words = kept;
    Ok(left_out)
}

/// Removes the ignored keys from a file; returns their names.
///
/// # Errors
/// One line: a key that is refused.
pub(super) fn leave_out_keys(file: &mut Value) -> Result<Vec<String>, String> {
    let mut left_out = Vec::new();
    for row in TABLE.iter().filter(|row| !row.key.is_empty()) {
        let path: Vec<&str> = row.key.split('.').collect();
        let Some(value) = file.as_mapping_mut().and_then(|file| take(file, &path)) else {
            continue;
        };
        let text = match &value {
            Value::Bool(b) => Some(b.to_string()),
            Value::String(s) => Some(s.clone()),
            Value::Number(n) => Some(n.to_string()),
            _ => None,
        };
        judge(row, row.key, text.as_deref())?;
        left_out.push(row.key.to_owned());
    }
    Ok(left_out)
}

/// Removes the value at a path, and the sections that are empty afterwards.
fn take(section: &mut Mapping, path: &[&str]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    if rest.is_empty() {
        return section.remove(*first);
    }
    let below = section.get_mut(*first)?.as_mapping_mut()?;
    let taken = take(below, rest)?;
    if below.is_empty() {
        section.remove(*first);
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_list_can_be_read() {
        let lines = LIST.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(TABLE.len(), lines);
        for row in TABLE.iter() {
            let says = match &row.answer {
                OptionAction::LeftOut => true,
                OptionAction::LeftOutWith(values, instead) => {
                    !values.is_empty() && !instead.is_empty()
                }
                OptionAction::Refused(instead) => !instead.is_empty(),
            };
            assert!(says && !row.option.is_empty(), "{row:?}");
        }
    }

    #[test]
    fn options_of_mongod_are_left_out_or_refused_by_name() {
        let mut line = words(
            "serve --wiredTigerCacheSizeGB 1.5 --dbpath d --journal --directoryperdb \
             --wiredTigerIndexPrefixCompression=true --tlsDisabledProtocols TLS1_0,TLS1_1 -v",
        );
        let left_out = leave_out(&mut line).unwrap();
        assert_eq!(line, words("serve --dbpath d -v"));
        assert_eq!(left_out.len(), 5, "{left_out:?}");
        for (line, instead) in [
            ("--shutdown", "SIGTERM"),
            ("--nojournal", "always"),
            ("--shardsvr", "one server"),
            ("--tlsDisabledProtocols TLS1_2", "1.2 and 1.3 on"),
            ("--sslMode requireSSL", "--tls"),
        ] {
            let error = leave_out(&mut words(line)).unwrap_err();
            let name = line.split(' ').next().unwrap();
            assert!(
                error.starts_with(name) && error.contains(instead),
                "{error}"
            );
        }
        let mut broken = vec!["--tlsDisabledProtocols".into(), "\nLS1_0".into()];
        let error = leave_out(&mut broken).unwrap_err();
        assert!(
            error.starts_with("--tlsDisabledProtocols \\nLS1_0 "),
            "{error}"
        );
        // Unknown options are left for the parser, which refuses them.
        let mut unknown = words("--nosuch --wiredTiger");
        assert_eq!(leave_out(&mut unknown), Ok(Vec::new()));
        assert_eq!(unknown.len(), 2);
    }

    #[test]
    fn the_same_holds_in_the_file() {
        let text = "storage:\n  dbPath: /d\n  journal: {enabled: true}\n  wiredTiger:\n    \
                    engineConfig: {cacheSizeGB: 2}\nnet: {port: 5}\n";
        let mut file: Value = serde_yaml_ng::from_str(text).unwrap();
        let left_out = leave_out_keys(&mut file).unwrap();
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        let rest = serde_yaml_ng::to_string(&file).unwrap();
        assert_eq!(rest, "storage:\n  dbPath: /d\nnet:\n  port: 5\n");
        let mut file = serde_yaml_ng::from_str("storage: {journal: {enabled: false}}").unwrap();
        assert!(
            leave_out_keys(&mut file)
                .unwrap_err()
                .contains("storage.journal.enabled")
        );
        let mut file = serde_yaml_ng::from_str("sharding: {clusterRole: shardsvr}").unwrap();
        assert!(
            leave_out_keys(&mut file)
                .unwrap_err()
                .contains("sharding.clusterRole")
        );
    }
}
