//! Maps the name that a client sends to its name in the directory: `userToDNMapping`. Promises: the
//! first rule that matches and finds an entry is used.

use crate::query::Query;
use crate::template::{Names, Placeholders, Template};
use pcre2::bytes::Regex;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSpec {
    r#match: String,
    substitution: Option<String>,
    #[serde(rename = "ldapQuery")]
    query: Option<String>,
}

/// The result of a rule for a matching name.
#[derive(Debug)]
pub(crate) enum MappedName {
    /// This distinguished name.
    Name(Template),
    /// The name of the one entry that this query finds.
    Found(Query),
}

/// One rule.
#[derive(Debug)]
struct Rule {
    pattern: Regex,
    becomes: MappedName,
}

/// All rules, in order.
#[derive(Debug)]
pub(crate) struct Mapping(Vec<Rule>);

impl Mapping {
    /// Parses the JSON option.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(json: &str) -> Result<Mapping, String> {
        let rules: Vec<RuleSpec> = serde_json::from_str(json).map_err(|e| e.to_string())?;
        if rules.is_empty() {
            return Err("it has no rule".to_owned());
        }
        rules
            .into_iter()
            .map(Rule::of)
            .collect::<Result<_, _>>()
            .map(Mapping)
    }

    /// Whether some rule searches the directory.
    pub(crate) fn asks(&self) -> bool {
        let asks = |r: &Rule| matches!(r.becomes, MappedName::Found(_));
        self.0.iter().any(asks)
    }

    /// The results of the matching rules for a name, in order, with the groups of each match.
    pub(crate) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a MappedName, Names)> {
        self.0.iter().filter_map(move |rule| {
            let found = rule.pattern.captures(name.as_bytes()).ok()??;
            let group = |n: usize| {
                let bytes = found.get(n).map_or(&[][..], |m| m.as_bytes());
                String::from_utf8_lossy(bytes).into_owned()
            };
            let names = Names {
                groups: (1..found.len()).map(group).collect(),
                provided: name.to_owned(),
                user: String::new(),
            };
            Some((&rule.becomes, names))
        })
    }
}

impl Rule {
    fn of(written: RuleSpec) -> Result<Rule, String> {
        let text = &written.r#match;
        let pattern = Regex::new(&format!("\\A(?:{text})\\z"))
            .map_err(|e| format!("'{text}' is no regular expression: {e}"))?;
        // `captures_len` counts the whole match, too.
        let places = Placeholders::Groups(pattern.captures_len().saturating_sub(1));
        let becomes = match (written.substitution, written.query) {
            (Some(to), None) => MappedName::Name(Template::parse(to.as_bytes(), places)?),
            (None, Some(query)) => MappedName::Found(Query::parse(&query, places)?),
            _ => {
                return Err(format!(
                    "the rule for '{text}' must have either substitution or ldapQuery"
                ));
            }
        };
        Ok(Rule { pattern, becomes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(json: &str, name: &str) -> Option<String> {
        let mapping = Mapping::parse(json).unwrap();
        let (becomes, names) = mapping.of(name).next()?;
        match becomes {
            MappedName::Name(to) => Some(to.name(&names)),
            MappedName::Found(_) => None,
        }
    }

    #[test]
    fn the_first_rule_that_matches_the_whole_name_counts() {
        let json = r#"[ {"match": "(.+)@one", "substitution": "uid={0},dc=one"},
            {"match": "(.+)@(.+)", "substitution": "uid={0},dc={1}"} ]"#;
        assert_eq!(first(json, "a@one").as_deref(), Some("uid=a,dc=one"));
        assert_eq!(first(json, "a@two").as_deref(), Some("uid=a,dc=two"));
        assert_eq!(
            first(json, "a,dc=evil@one").as_deref(),
            Some("uid=a\\,dc\\=evil,dc=one")
        );
        assert_eq!(first(json, "a"), None);
        assert_eq!(first(json, "a@one\n"), None);
        let all = Mapping::parse(json).unwrap();
        assert_eq!(all.of("a@one").count(), 2);
        let either = r#"[ {"match": "a|b", "substitution": "cn=c"} ]"#;
        assert_eq!(first(either, "ax"), None);
    }

    #[test]
    fn wrong_rules_are_refused() {
        for (json, named) in [
            ("[]", "no rule"),
            ("[", "EOF"),
            (r#"[{"match": "("}]"#, "'('"),
            (r#"[{"match": "a"}]"#, "either substitution or ldapQuery"),
            (r#"[{"match": "a", "substitution": "{0}"}]"#, "{0}"),
            (
                r#"[{"match": "a", "substitution": "", "ldapQuery": ""}]"#,
                "either",
            ),
            (r#"[{"match": "a", "replace": "b"}]"#, "replace"),
        ] {
            let e = Mapping::parse(json).unwrap_err();
            assert!(e.contains(named), "{json}: {e}");
        }
    }
}
