//! Configuration files and command lines: neither panics, and an error is reported in one line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Command, FromArgMatches};
use proof::Random;
use proof::fuzz::{Fuzz, Limit, Outcome, change_bytes, number_of};
use server::command_line::CommandLine;
use server::config::{OptionFields, ServeArgs, Settings};

use crate::peak;

/// More than any reader needs for inputs of this size.
const HELD_MAX: usize = 16 << 20;

fn check_one_line(outcome: &Result<Settings, String>, given: &str) {
    if let Err(e) = outcome {
        assert!(!e.trim().is_empty(), "no reason for {given:?}");
        assert!(!e.trim().contains('\n'), "not one line: {e:?}");
    }
}

fn kind_of(settings: &Settings) -> u64 {
    number_of((
        settings.auth,
        settings.ipv6,
        settings.replica_set.is_some(),
        &settings.storage_engine,
        settings.without_effect.len(),
    ))
}

/// Replaces the value of one line of a configuration by a value of another kind.
fn change_configuration(random: &mut Random, text: &mut Vec<u8>, other: &[u8]) {
    const VALUES: [&str; 12] = [
        "true",
        "-1",
        "1e99",
        "''",
        "[]",
        "{}",
        "null",
        "~",
        "0x10",
        "a: b",
        "&x [*x]",
        "|\n  two\n  lines",
    ];
    let colons: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b':').collect();
    if colons.is_empty() || random.chance(40) {
        return change_bytes(random, text, other);
    }
    let from = colons[random.below(colons.len())] + 1;
    let ends = |at: &usize| matches!(text[*at], b'\n' | b',' | b'}');
    let to = (from..text.len()).find(ends).unwrap_or(text.len());
    let value = format!(" {}", VALUES[random.below(VALUES.len())]);
    text.splice(from..to, value.into_bytes());
}

#[test]
fn configurations() {
    let corpus: Vec<Vec<u8>> = include_str!("../../corpus/configurations.yaml")
        .split("---\n")
        .map(|text| text.as_bytes().to_vec())
        .collect();
    let fuzz = Fuzz {
        name: "configurations",
        limit: Limit::of(4_000),
        corpus: &corpus,
        change: |random, i, other| change_configuration(random, i, other),
        show: |text| format!("{:?}", String::from_utf8_lossy(text)),
    };
    let dir = tempfile::tempdir().unwrap();
    let args = ServeArgs {
        config: Some(dir.path().join("quarry.yaml")),
        ..ServeArgs::default()
    };
    let path = args.config.clone().unwrap_or_default();
    let tried = fuzz.run(|text| {
        std::fs::write(&path, text).unwrap();
        let (read, held) = peak::measure_peak(|| Settings::of(&args));
        assert!(
            held <= HELD_MAX + text.len() * 1000,
            "{held} bytes for {}",
            text.len()
        );
        check_one_line(&read, &String::from_utf8_lossy(text));
        Outcome::of(&read, kind_of)
    });
    assert!(tried.accepted > 100, "{tried:?}");
}

/// Inserts, removes, doubles or changes a word.
fn change_words(random: &mut Random, words: &mut Vec<Vec<u8>>, other: &[Vec<u8>]) {
    if words.len() < 3 {
        words.extend_from_slice(other);
        return;
    }
    let at = 1 + random.below(words.len() - 1);
    match random.below(5) {
        0 => drop(words.remove(at)),
        1 => words.insert(at, words[random.below(words.len())].clone()),
        2 => words.truncate(at),
        3 if !other.is_empty() => words[at] = other[random.below(other.len())].clone(),
        _ => {
            let from = other.first().cloned().unwrap_or_default();
            change_bytes(random, &mut words[at], &from);
        }
    }
}

/// Words as the kernel passes them: without zero bytes.
fn as_words(words: &[Vec<u8>]) -> Vec<OsString> {
    use std::os::unix::ffi::OsStringExt;
    let shown = words.iter().map(|word| {
        let bytes = word.iter().copied().filter(|b| *b != 0).collect();
        OsString::from_vec(bytes)
    });
    shown.collect()
}

/// The settings of a command line; `None` when it asks for help. Files are searched in `dir`.
fn settings_of(words: &[Vec<u8>], dir: &Path) -> Option<Result<Settings, String>> {
    let line = match CommandLine::of(as_words(words).into_iter()) {
        Ok(line) => line,
        Err(why) => return Some(Err(why)),
    };
    let serve = ServeArgs::augment_args(Command::new("serve"));
    // The command's own errors have more lines: they name the option and show its usage.
    let matches = serve
        .clone()
        .try_get_matches_from(line.words.iter().skip(1))
        .ok()?;
    let mut args = ServeArgs::from_arg_matches(&matches).ok()?;
    args.config = args.config.take().map(|name| move_into(&name, dir));
    args.given = OptionFields::of(&serve, &matches);
    Some(Settings::of(&args))
}

fn move_into(name: &Path, dir: &Path) -> PathBuf {
    name.file_name()
        .map_or_else(|| dir.to_owned(), |name| dir.join(name))
}

#[test]
fn command_lines() {
    let corpus: Vec<Vec<Vec<u8>>> = include_str!("../../corpus/command-lines.txt")
        .lines()
        .map(|line| {
            line.split(' ')
                .map(|word| word.as_bytes().to_vec())
                .collect()
        })
        .collect();
    let fuzz = Fuzz {
        name: "command lines",
        limit: Limit::of(4_000),
        corpus: &corpus,
        change: |random, i, other| change_words(random, i, other),
        show: |words| format!("{:?}", as_words(words)),
    };
    let dir = tempfile::tempdir().unwrap();
    let tried = fuzz.run(|words| {
        let (read, held) = peak::measure_peak(|| settings_of(words, dir.path()));
        assert!(held <= HELD_MAX, "{held} bytes for {words:?}");
        match read {
            None => Outcome::Refused(0),
            Some(read) => {
                check_one_line(&read, &format!("{:?}", as_words(words)));
                Outcome::of(&read, kind_of)
            }
        }
    });
    assert!(tried.accepted > 100, "{tried:?}");
}
