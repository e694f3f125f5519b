//! Server parameters as written in the file and on the command line.

use super::document::put_items;
use model::DocBuf;
use serde_yaml_ng::Value;
use std::collections::BTreeMap;

/// The parameters of the file, then those of the command line. A list or document in the file
/// becomes JSON, which is how the command line writes it.
pub(super) fn parameters(
    file: &BTreeMap<String, Value>,
    args: &[String],
) -> Result<Vec<(String, String)>, String> {
    let mut parameters = Vec::new();
    for (name, value) in file {
        let wrong = |e: &dyn std::fmt::Display| format!("setParameter {name} is wrong: {e}");
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Sequence(_) | Value::Mapping(_) => {
                serde_json::to_string(value).map_err(|e| wrong(&e))?
            }
            other => serde_yaml_ng::to_string(other).map_err(|e| wrong(&e))?,
        };
        parameters.push((name.clone(), text.trim().to_owned()));
    }
    for given in args {
        let Some((name, value)) = given.split_once('=') else {
            return Err(format!("setParameter takes NAME=VALUE, given {given}"));
        };
        parameters.push((name.to_owned(), value.to_owned()));
    }
    Ok(parameters)
}

/// The effective value: the last one given.
pub(super) fn find_parameter<'a>(
    parameters: &'a [(String, String)],
    name: &str,
) -> Option<&'a str> {
    let mut last = parameters.iter().rev();
    last.find(|(n, _)| n == name)
        .map(|(_, value)| value.as_str())
}

/// Parses a JSON list into a BSON document that has the list under the empty name.
///
/// # Errors
/// One line that names the parameter.
pub fn list_of(name: &str, json: &str) -> Result<DocBuf, String> {
    let items: Vec<Value> =
        serde_json::from_str(json).map_err(|e| format!("setParameter {name} is wrong: {e}"))?;
    let mut failed = None;
    let list = DocBuf::build(|w| failed = put_items(&mut w.array(""), &items, name, 0).err());
    failed.map_or(Ok(list), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_file_are_those_of_a_command_line() {
        let file = "a: 'x, y'\nb: [{c: 1}]\nd: true\ne: 5\nf: '[{\"g\": \"h\"}]'\n";
        let file = serde_yaml_ng::from_str(file).unwrap();
        let got = parameters(&file, &["e=6".to_owned()]).unwrap();
        let wanted = [
            ("a", "x, y"),
            ("b", "[{\"c\":1}]"),
            ("d", "true"),
            ("e", "5"),
            ("f", "[{\"g\": \"h\"}]"),
            ("e", "6"),
        ];
        let wanted = wanted.map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(got, wanted);
        assert_eq!(find_parameter(&got, "e"), Some("6"));
        assert_eq!(find_parameter(&got, "z"), None);
        let list = list_of("b", "[{\"c\":\t1}]").unwrap();
        assert_eq!(list, model::doc! { "": [{ "c": 1i32 }] });
        assert!(list_of("b", "{}").unwrap_err().contains("setParameter b"));
    }
}
