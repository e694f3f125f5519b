//! Expands one command line into those of its runs: lists of numbers, several targets, own servers,
//! repeats.
//!
//! Repeats are outermost, then targets: A, B, A, B. A drift of the machine affects all targets
//! equally.

use super::own::OwnSpec;

/// The largest number of options that may be lists of numbers.
const LISTS_MAX: usize = 2;
const REPEATS_MAX: u32 = 1_000;
/// Options that may be lists.
const OPTIONS: [&str; 14] = [
    "--clients",
    "--payload",
    "--hot-rows",
    "--batch",
    "--rows",
    "--rate",
    "--indexes",
    "--tables",
    "--databases",
    "--memory-mb",
    "--times-memory",
    "--rounds",
    "--extra-tables",
    "--seconds",
];
/// The prefix of a target that the lab starts as a server.
pub(super) const OWN_SCHEME: &str = "own:";

/// The command line of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) words: Vec<String>,
    /// The number of the repeat, from 1.
    pub(super) repeat: u32,
}

/// The dimensions of a sweep other than lists of numbers.
#[derive(Debug, Default)]
struct Dimensions {
    targets: Vec<String>,
    own: Vec<String>,
    repeats: Option<u32>,
    /// Names and texts of `--engine-options`.
    engine_options: Vec<(String, String)>,
}

/// The option with an engine's own options.
pub(super) const ENGINE_OPTIONS: &str = "--engine-options";
/// The targets that accept this option.
const WITH_OPTIONS: [&str; 3] = ["rocksdb:", "rocksdb-library:", "wiredtiger:"];

/// A target with each of the options and a distinguishing label; without options the target alone.
fn with_options(
    target: &str,
    all: &[(String, String)],
) -> Result<Vec<(String, Option<String>)>, String> {
    if all.is_empty() {
        return Ok(vec![(target.to_owned(), None)]);
    }
    if !WITH_OPTIONS.iter().any(|scheme| target.starts_with(scheme)) {
        return Err(format!(
            "{ENGINE_OPTIONS} is for targets that begin with {}; {target} does not",
            WITH_OPTIONS.join(" or ")
        ));
    }
    let joint = if target.contains('?') { '&' } else { '?' };
    let each = all.iter().map(|(name, text)| {
        let parameter = match text.strip_prefix('@') {
            Some(path) => format!("options-file={path}"),
            None => format!("options={text}"),
        };
        let label = format!("options={name}");
        (format!("{target}{joint}{parameter}"), Some(label))
    });
    Ok(each.collect())
}

/// `NAME=STRING`, or `NAME=@FILE`.
fn engine_options(value: &str) -> Result<(String, String), String> {
    let pair = value
        .split_once('=')
        .filter(|(name, text)| !name.is_empty() && !text.is_empty() && !text.contains('&'));
    pair.map(|(name, text)| (name.to_owned(), text.to_owned()))
        .ok_or_else(|| {
            format!("{ENGINE_OPTIONS} must be NAME=STRING or NAME=@FILE, without &, given {value}")
        })
}

/// The runs of a command line, in order.
///
/// # Errors
/// There are more than two lists, a list contains other things than numbers, an own server is
/// unknown, or the number of repeats is invalid.
pub(super) fn expand(words: &[String]) -> Result<Vec<Line>, String> {
    let (dimensions, rest) = take_dimensions(words)?;
    let mut targets = dimensions.targets;
    targets.extend(
        dimensions
            .own
            .iter()
            .map(|name| format!("{OWN_SCHEME}{name}")),
    );
    let mut with_labels = Vec::new();
    for target in &targets {
        with_labels.extend(with_options(target, &dimensions.engine_options)?);
    }
    let lines = expand_lists(&rest)?;
    let lines: Vec<Vec<String>> = lines.iter().flat_map(|line| workloads(line)).collect();
    let mut out = Vec::new();
    for repeat in 1..=dimensions.repeats.unwrap_or(1) {
        for (target, label) in &with_labels {
            out.extend(lines.iter().map(|words| {
                let target = ["--target".to_owned(), target.clone()];
                let label = label
                    .iter()
                    .flat_map(|label| ["--label".to_owned(), label.clone()]);
                let words = words.iter().cloned().chain(target).chain(label).collect();
                Line { words, repeat }
            }));
        }
        if targets.is_empty() {
            let words = lines.iter().cloned();
            out.extend(words.map(|words| Line { words, repeat }));
        }
    }
    Ok(out)
}

/// Expands names of workloads: `ycsb` means six workloads, and a list of names means a line for
/// each.
fn workloads(line: &[String]) -> Vec<Vec<String>> {
    let given = line.get(1).map_or("", String::as_str);
    let names: Vec<String> = match given {
        "ycsb" => ('a'..='f').map(|letter| format!("ycsb-{letter}")).collect(),
        given if !given.starts_with('-') => given.split(',').map(str::to_owned).collect(),
        _ => return vec![line.to_vec()],
    };
    let with = |name: String| {
        let words = line.iter().enumerate();
        words
            .map(|(at, word)| if at == 1 { name.clone() } else { word.clone() })
            .collect()
    };
    names.into_iter().map(with).collect()
}

/// Takes several targets, own servers and repeats out of the command line.
fn take_dimensions(words: &[String]) -> Result<(Dimensions, Vec<String>), String> {
    let count = |option: &str| {
        let with_value = format!("{option}=");
        let is_one = |word: &&String| *word == option || word.starts_with(&with_value);
        words.iter().filter(is_one).count()
    };
    let takes_targets = count("--target") > 1 || count("--own") + count(ENGINE_OPTIONS) > 0;
    let (mut out, mut rest) = (Dimensions::default(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=').filter(|_| word.starts_with("--")) {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let is_taken = match name {
            "--target" => takes_targets,
            "--own" | "--repeats" | ENGINE_OPTIONS => true,
            _ => false,
        };
        if !is_taken {
            rest.push(word.clone());
            continue;
        }
        let value = value
            .or_else(|| words.next().cloned())
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name {
            "--target" => out.targets.push(value),
            ENGINE_OPTIONS => out.engine_options.push(engine_options(&value)?),
            "--own" => {
                for name in value.split(',') {
                    OwnSpec::parse(name)?;
                    out.own.push(name.to_owned());
                }
            }
            _ => {
                let repeats = value.parse().ok();
                let allowed = 1..=REPEATS_MAX;
                out.repeats = repeats.filter(|number| allowed.contains(number));
                if out.repeats.is_none() {
                    return Err(format!("--repeats {value}: allowed is 1 to {REPEATS_MAX}"));
                }
            }
        }
    }
    Ok((out, rest))
}

/// Makes one command line for each combination of values of the lists; the first list is outermost.
fn expand_lists(words: &[String]) -> Result<Vec<Vec<String>>, String> {
    let mut out = vec![Vec::new()];
    let mut lists = 0;
    let mut option: Option<&str> = None;
    for word in words {
        let (name, value) = match (option.take(), word.split_once('=')) {
            (Some(name), _) => (name, word.as_str()),
            (None, Some((name, value))) if OPTIONS.contains(&name) => (name, value),
            _ => {
                option = OPTIONS.iter().find(|name| *name == word).copied();
                out.iter_mut()
                    .for_each(|line: &mut Vec<String>| line.push(word.clone()));
                continue;
            }
        };
        let values: Vec<&str> = value.split(',').collect();
        if let [_, _, ..] = values.as_slice() {
            lists += 1;
            if values.iter().any(|value| value.parse::<f64>().is_err()) {
                return Err(format!("{name} {value} is not a list of numbers"));
            }
        }
        let with = |line: &Vec<String>, value: &str| {
            let word = if word.contains('=') {
                format!("{name}={value}")
            } else {
                value.to_owned()
            };
            line.iter().cloned().chain([word]).collect::<Vec<String>>()
        };
        out = out
            .iter()
            .flat_map(|line| values.iter().map(move |value| with(line, value)))
            .collect();
    }
    if lists > LISTS_MAX {
        return Err(format!(
            "{lists} options are lists; at most {LISTS_MAX} are allowed"
        ));
    }
    Ok(out)
}

/// The command line with a different value of an option that it has.
pub(super) fn replace_option(words: &[String], option: &str, value: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        let is_value = out.last().is_some_and(|last| last == option);
        let is_both = word.split_once('=').is_some_and(|(name, _)| name == option);
        out.push(if is_value {
            value.to_owned()
        } else if is_both {
            format!("{option}={value}")
        } else {
            word.clone()
        });
    }
    out
}

/// The value of an option of a command line.
pub(super) fn option<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    let apart = words.iter().skip_while(|word| *word != name).nth(1);
    let joined = || {
        words
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    apart.map(String::as_str).or_else(joined)
}

/// A command line without its passwords.
pub(crate) fn hide_passwords(words: &[String]) -> String {
    words
        .iter()
        .map(|word| crate::credentials::hide_password(word))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn lines(text: &str) -> Vec<Vec<String>> {
        let lines = expand(&words(text)).unwrap();
        lines.into_iter().map(|line| line.words).collect()
    }

    #[test]
    fn several_workloads_are_a_line_each() {
        let found = lines("run ycsb --target redb:a --out x");
        assert_eq!(found.len(), 6);
        assert_eq!(found[5], words("run ycsb-f --target redb:a --out x"));
        let found = lines("run point,hot --clients 1,2");
        let names: Vec<&str> = found.iter().map(|line| line[1].as_str()).collect();
        assert_eq!(names, ["point", "hot", "point", "hot"]);
    }

    #[test]
    fn repeats_are_outermost_and_targets_take_turns() {
        let found = expand(&words(
            "run hot --target redb:a --clients 1,2 --repeats 2 --target=fjall:b --own innodb",
        ))
        .unwrap();
        let shown: Vec<String> = found
            .iter()
            .map(|line| {
                let target = option(&line.words, "--target").unwrap();
                let clients = option(&line.words, "--clients").unwrap();
                format!("{} {target} {clients}", line.repeat)
            })
            .collect();
        let once = |repeat: u32| {
            ["redb:a", "fjall:b", "own:innodb"]
                .iter()
                .flat_map(|target| [1, 2].map(|clients| format!("{repeat} {target} {clients}")))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown, [once(1), once(2)].concat());
        // A single target stays in its place.
        assert_eq!(
            lines("run hot --target redb:a --out x --repeats 1"),
            [words("run hot --target redb:a --out x")]
        );
        assert!(
            expand(&words("run hot --own oracle"))
                .unwrap_err()
                .contains("quarry, innodb")
        );
        assert!(
            expand(&words("run hot --repeats 0"))
                .unwrap_err()
                .contains("1 to")
        );
    }

    #[test]
    fn options_of_an_engine_are_a_dimension_with_labels() {
        let found = lines(
            "run hot --target rocksdb:d?cache=1M --engine-options a=x=1;y={z=2} --engine-options \
                b=@/etc/options --out x",
        );
        let requested = [
            "run hot --out x --target rocksdb:d?cache=1M&options=x=1;y={z=2} --label options=a",
            "run hot --out x --target rocksdb:d?cache=1M&options-file=/etc/options --label \
                options=b",
        ];
        assert_eq!(found, requested.map(words));
        for (given, reason) in [
            (
                "run hot --target redb:d --engine-options a=b=1",
                "redb:d does not",
            ),
            (
                "run hot --target rocksdb:d --engine-options a",
                "NAME=STRING",
            ),
        ] {
            let refused = expand(&words(given)).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn a_list_is_one_command_line_for_each_value() {
        let found = lines("run hot --clients 1,2 --out x --hot-rows=1,4 --rows 500");
        let requested = [
            "run hot --clients 1 --out x --hot-rows=1 --rows 500",
            "run hot --clients 1 --out x --hot-rows=4 --rows 500",
            "run hot --clients 2 --out x --hot-rows=1 --rows 500",
            "run hot --clients 2 --out x --hot-rows=4 --rows 500",
        ];
        assert_eq!(found, requested.map(words));
        // A comma in other options does not make a list.
        assert_eq!(lines("run hot --target mongodb://a,b --out x,y").len(), 1);
    }

    #[test]
    fn refuses_three_lists_and_what_is_not_a_number() {
        assert!(
            expand(&words("run x --clients 1,2 --batch 1,2 --rows 1,2"))
                .unwrap_err()
                .contains("3 options")
        );
        assert_eq!(
            expand(&words("run x --clients 1,two")).unwrap_err(),
            "--clients 1,two is not a list of numbers"
        );
        assert!(expand(&words("run x --clients 1,")).is_err());
    }

    #[test]
    fn results_go_into_the_folder_of_the_sweep() {
        assert_eq!(
            replace_option(&words("run x --out a --rows 1"), "--out", "s"),
            words("run x --out s --rows 1")
        );
        assert_eq!(
            replace_option(&words("run x --out=a"), "--out", "s"),
            words("run x --out=s")
        );
    }
}
