//! Parses the values of a file into templates.

use toml::Value;

use super::generator::{Distribution, Generator, Template, zipf};
use super::tree::Tree;
use crate::draw::KeyDistribution;
use crate::text::WORDS;

/// An error in a template, and the wrong words of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The wrong words, as in the file.
    pub words: String,
    /// The error, and the allowed forms.
    pub reason: String,
}

const GENERATORS: &str = "@int(LOW, HIGH[, uniform|zipf|normal|exponential]), @double(LOW, HIGH[, \
    …]), @choice(VALUE[:WEIGHT], …), @text(LENGTH or LOW..HIGH[, PERCENT random]), @digits(COUNT), \
    @words(COUNT or LOW..HIGH), @growing(LOW, HIGH), @bool(PERCENT), @now(), @ago(SECONDS), \
    @number(), @client(), @sequence(), @existing([uniform|zipf|wide-zipf|latest]), @var(NAME), \
    @repeat(COUNT or LOW..HIGH, GENERATOR or VALUE), \
    @maybe(PERCENT, GENERATOR or VALUE)";
/// The largest length of the text of one value.
const LENGTH_MAX: u32 = 16_000_000;
const REPEAT_MAX: u32 = 1_000_000;

fn wrong(words: &str, reason: impl Into<String>) -> TemplateError {
    TemplateError {
        words: words.to_owned(),
        reason: reason.into(),
    }
}

impl Template {
    /// Parses a value of a file.
    ///
    /// # Errors
    /// A generator does not exist or does not take these arguments.
    pub fn parse(value: &Value) -> Result<Self, TemplateError> {
        Ok(match value {
            Value::String(text) => Self::of_text(text)?,
            Value::Integer(number) => Self::Constant(Tree::integer(*number)),
            Value::Float(number) => Self::Constant(Tree::Double(*number)),
            Value::Boolean(value) => Self::Constant(Tree::Bool(*value)),
            Value::Datetime(time) => {
                let text = time.to_string();
                let parsed: Option<jiff::Timestamp> = text.parse().ok();
                let time = parsed.ok_or_else(|| {
                    wrong(
                        &text,
                        "a time must have a date, a time of day and an offset such as Z",
                    )
                })?;
                Self::Constant(Tree::Date(time.as_millisecond()))
            }
            Value::Array(items) => {
                Self::Array(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Value::Table(table) => Self::table(table)?,
        })
    }

    /// Parses a table of a file; its order is kept. A table of only `repeat` and `of` becomes an
    /// array of drawn values.
    ///
    /// # Errors
    /// As [`Template::parse`].
    pub fn table(table: &toml::Table) -> Result<Self, TemplateError> {
        if let (2, Some(count), Some(item)) = (table.len(), table.get("@repeat"), table.get("@of"))
        {
            let text = match count {
                Value::Integer(number) => number.to_string(),
                Value::String(text) => text.clone(),
                _ => {
                    return Err(wrong(
                        "@repeat",
                        "allowed is a number of items or \"LOW..HIGH\"",
                    ));
                }
            };
            let (low, high) =
                range(&text, REPEAT_MAX).map_err(|reason| wrong("@repeat", reason))?;
            let item = Self::parse(item)?;
            return Ok(Self::Drawn(Box::new(Generator::Repeat(low, high, item))));
        }
        if let Some(name) = table.keys().find(|name| name.starts_with('@')) {
            return Err(wrong(
                name,
                "a name must not begin with @, except in { \"@repeat\" = COUNT, \"@of\" = VALUE }",
            ));
        }
        let fields = table
            .iter()
            .map(|(name, value)| Ok((name.clone(), Self::parse(value)?)));
        Ok(Self::Object(fields.collect::<Result<_, _>>()?))
    }

    fn of_text(text: &str) -> Result<Self, TemplateError> {
        let Some(rest) = text.strip_prefix('@') else {
            return Ok(Self::Constant(Tree::Text(text.to_owned())));
        };
        if rest.starts_with('@') {
            return Ok(Self::Constant(Tree::Text(rest.to_owned())));
        }
        generator(text, rest).map(|found| Self::Drawn(Box::new(found)))
    }

    /// Parses an argument of a generator: a generator, a number or a word.
    fn of_argument(text: &str) -> Result<Self, TemplateError> {
        if text.starts_with('@') {
            return Self::of_text(text);
        }
        Ok(Self::Constant(word(text)))
    }
}

/// A number, true, false, null, or text.
fn word(text: &str) -> Tree {
    match text {
        "true" => Tree::Bool(true),
        "false" => Tree::Bool(false),
        "null" => Tree::Null,
        _ => {
            if let Ok(number) = text.parse::<i64>() {
                Tree::integer(number)
            } else if let Ok(number) = text.parse::<f64>() {
                Tree::Double(number)
            } else {
                Tree::Text(text.to_owned())
            }
        }
    }
}

/// `N` or `LOW..HIGH`.
fn range(text: &str, most: u32) -> Result<(u32, u32), String> {
    let number = |text: &str| {
        let found = text.trim().replace('_', "").parse::<u32>().ok();
        found
            .filter(|number| *number <= most)
            .ok_or_else(|| format!("'{}' is not a number up to {most}", text.trim()))
    };
    let (low, high) = match text.split_once("..") {
        Some((low, high)) => (number(low)?, number(high)?),
        None => (number(text)?, number(text)?),
    };
    if low > high {
        return Err(format!("{low}..{high} is empty"));
    }
    Ok((low, high))
}

/// Splits arguments at commas outside parentheses.
fn arguments(text: &str) -> Vec<&str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(text.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text.get(start..).unwrap_or_default().trim();
    if !last.is_empty() || !out.is_empty() {
        out.push(last);
    }
    out
}

fn unknown(whole: &str) -> TemplateError {
    wrong(whole, format!("no such generator; there are {GENERATORS}"))
}

fn generator(whole: &str, rest: &str) -> Result<Generator, TemplateError> {
    let (name, inner) = rest.split_once('(').ok_or_else(|| unknown(whole))?;
    let inner = inner.strip_suffix(')').ok_or_else(|| unknown(whole))?;
    let given = arguments(inner);
    let usage = |form: &str| wrong(whole, format!("allowed is {form}"));
    match (name, given.as_slice()) {
        ("int", [low, high, more @ ..]) => {
            let form = "@int(LOW, HIGH[, uniform|zipf|normal|exponential])";
            let number = |text: &str| text.replace('_', "").parse::<i64>().ok();
            let (low, high) = number(low)
                .zip(number(high))
                .filter(|(low, high)| low <= high)
                .ok_or_else(|| usage(form))?;
            let count = high.abs_diff(low).saturating_add(1);
            let distribution = distribution(more, count).ok_or_else(|| usage(form))?;
            Ok(Generator::Int(low, high, distribution))
        }
        ("double", [low, high, more @ ..]) => {
            let form = "@double(LOW, HIGH[, uniform|normal|exponential])";
            let (low, high) = low
                .parse::<f64>()
                .ok()
                .zip(high.parse::<f64>().ok())
                .filter(|(low, high)| low <= high && low.is_finite() && high.is_finite())
                .ok_or_else(|| usage(form))?;
            let found = distribution(more, 1).filter(|one| !matches!(one, Distribution::Zipf(_)));
            Ok(Generator::Double(
                low,
                high,
                found.ok_or_else(|| usage(form))?,
            ))
        }
        ("choice", [_, ..]) => choice(&given)
            .map(Generator::Choice)
            .ok_or_else(|| usage("@choice(VALUE[:WEIGHT], …) with weights above 0")),
        ("text", [length, more @ ..]) if more.len() < 2 => {
            let (low, high) = range(length, LENGTH_MAX).map_err(|reason| wrong(whole, reason))?;
            let percent = more.first().map_or(Some(50), |text| text.parse().ok());
            let percent = percent.filter(|percent| *percent <= 100);
            let percent = percent.ok_or_else(|| usage("@text(LENGTH, 0 to 100 percent)"))?;
            Ok(Generator::Text(low, high, percent))
        }
        ("words", [count]) => {
            let (low, high) = range(count, REPEAT_MAX).map_err(|reason| wrong(whole, reason))?;
            Ok(Generator::Words(low, high, zipf(u64::from(WORDS))))
        }
        ("digits", [count]) => {
            let (count, _) = range(count, LENGTH_MAX).map_err(|reason| wrong(whole, reason))?;
            Ok(Generator::Digits(count))
        }
        ("growing", [low, high]) => {
            let (low, high) = range(&format!("{low}..{high}"), LENGTH_MAX)
                .map_err(|reason| wrong(whole, reason))?;
            Ok(Generator::Growing(low, high))
        }
        ("bool", [percent]) => share(percent)
            .map(Generator::Bool)
            .ok_or_else(|| usage("@bool(0 to 100)")),
        _ => other_generator(whole, name, &given),
    }
}

/// Parses generators of times, ids, variables and other values.
fn other_generator(whole: &str, name: &str, given: &[&str]) -> Result<Generator, TemplateError> {
    let usage = |form: &str| wrong(whole, format!("allowed is {form}"));
    match (name, given) {
        ("now", []) => Ok(Generator::Time(0.0)),
        ("ago", [seconds]) => {
            let seconds = seconds.parse::<f64>().ok();
            let seconds = seconds.filter(|seconds| (0.0..1e11).contains(seconds));
            Ok(Generator::Time(
                seconds.ok_or_else(|| usage("@ago(SECONDS)"))?,
            ))
        }
        ("number", []) => Ok(Generator::Number),
        ("client", []) => Ok(Generator::Client),
        ("sequence", []) => Ok(Generator::Sequence),
        ("existing", []) => Ok(Generator::Existing(KeyDistribution::Uniform)),
        ("existing", [draw]) => match *draw {
            "uniform" => Ok(Generator::Existing(KeyDistribution::Uniform)),
            "zipf" => Ok(Generator::Existing(KeyDistribution::Zipf)),
            "wide-zipf" => Ok(Generator::Existing(KeyDistribution::WideZipf)),
            "latest" => Ok(Generator::Existing(KeyDistribution::Latest)),
            _ => Err(usage("@existing([uniform|zipf|wide-zipf|latest])")),
        },
        ("var", [name]) if !name.is_empty() => Ok(Generator::Variable((*name).to_owned())),
        ("repeat", [count, item]) => {
            let (low, high) = range(count, REPEAT_MAX).map_err(|reason| wrong(whole, reason))?;
            Ok(Generator::Repeat(low, high, Template::of_argument(item)?))
        }
        ("maybe", [percent, value]) => {
            let percent = share(percent).ok_or_else(|| usage("@maybe(0 to 100, VALUE)"))?;
            Ok(Generator::Maybe(percent, Template::of_argument(value)?))
        }
        (
            "int" | "double" | "choice" | "text" | "words" | "digits" | "growing" | "bool" | "now"
            | "ago" | "number" | "client" | "sequence" | "existing" | "var" | "repeat" | "maybe",
            _,
        ) => {
            let form = GENERATORS
                .split("), ")
                .find(|form| form.starts_with(&format!("@{name}(")));
            Err(usage(&format!(
                "{})",
                form.unwrap_or(name).trim_end_matches(')')
            )))
        }
        _ => Err(unknown(whole)),
    }
}

fn share(text: &str) -> Option<f64> {
    let percent = text.parse::<f64>().ok();
    percent.filter(|percent| (0.0..=100.0).contains(percent))
}

fn distribution(words: &[&str], count: u64) -> Option<Distribution> {
    Some(match words {
        [] | ["uniform"] => Distribution::Uniform,
        ["zipf"] => zipf(count),
        ["normal"] => Distribution::Normal,
        ["exponential"] => Distribution::Exponential,
        _ => return None,
    })
}

fn choice(given: &[&str]) -> Option<Vec<(Tree, f64)>> {
    given
        .iter()
        .map(|one| match one.rsplit_once(':') {
            Some((value, weight)) => {
                let weight = weight.parse::<f64>().ok();
                let weight = weight.filter(|weight| *weight > 0.0 && weight.is_finite());
                Some((word(value), weight?))
            }
            None => Some((word(one), 1.0)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::generator::DrawContext;
    use super::*;
    use crate::seed::from;

    fn template(text: &str) -> Result<Template, TemplateError> {
        let table: toml::Table = toml::from_str(text).unwrap();
        Template::table(&table)
    }

    fn draw(text: &str, number: u64) -> Vec<(String, Tree)> {
        let template = template(text).unwrap();
        let found = template.draw(&mut DrawContext {
            random: &mut from(number),
            number,
            rows: 100,
            client: 3,
            sequence: 7,
            now_ms: 1_000_000,
            variables: &BTreeMap::from([("a".to_owned(), Tree::Int(7))]),
            existing: &mut |_, _| Tree::Int(3),
        });
        match found {
            Tree::Object(fields) => fields,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_drawn_within_what_was_asked_for() {
        let text = r#"
            n = "@number()"
            i = "@int(5, 9)"
            z = "@int(1, 1000, zipf)"
            d = "@double(1, 2, normal)"
            c = "@choice(new:3, paid, 4)"
            t = "@text(10..20)"
            w = "@words(3..5)"
            at = "@@home"
            when = "@ago(100)"
            items = { "@repeat" = "1..3", "@of" = { sku = "@digits(4)", count = 1 } }
            tags = "@repeat(2, @choice(a, b))"
            who = "@existing(latest)"
            v = "@var(a)"
            grown = "@growing(10, 110)"
            inner = { deep = [1, "@bool(100)"] }
        "#;
        for number in 1..=50 {
            let found: BTreeMap<String, Tree> = draw(text, number).into_iter().collect();
            assert_eq!(found["n"], Tree::integer(number as i64));
            assert!(matches!(found["i"], Tree::Int(5..=9)));
            assert!(matches!(found["z"], Tree::Int(1..=1000)));
            assert!(matches!(found["d"], Tree::Double(d) if (1.0..2.0).contains(&d)));
            assert!(matches!(&found["t"], Tree::Text(text) if (10..=20).contains(&text.len())));
            assert_eq!(found["at"], Tree::Text("@home".to_owned()));
            let words = |text: &str| text.split(' ').filter(|word| word.len() == 4).count();
            assert!(matches!(&found["w"], Tree::Text(text) if (3..=5).contains(&words(text))));
            assert!(matches!(found["when"], Tree::Date(900_000..=1_000_000)));
            let Tree::Array(items) = &found["items"] else {
                panic!()
            };
            assert!((1..=3).contains(&items.len()), "{items:?}");
            assert!(matches!(&found["tags"], Tree::Array(tags) if tags.len() == 2));
            assert_eq!((&found["who"], &found["v"]), (&Tree::Int(3), &Tree::Int(7)));
            let length = 10 + number as usize;
            assert!(matches!(&found["grown"], Tree::Text(text) if text.len() == length));
            let deep = Tree::Array(vec![Tree::Int(1), Tree::Bool(true)]);
            assert_eq!(
                found["inner"],
                Tree::Object(vec![("deep".to_owned(), deep)])
            );
        }
        assert_eq!(
            draw(text, 9),
            draw(text, 9),
            "the same stream draws the same"
        );
        // Names keep the order of the file.
        let names: Vec<String> = draw("b = 1\na = 2", 1)
            .into_iter()
            .map(|field| field.0)
            .collect();
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn weights_and_skew_show() {
        let text = r#"
            c = "@choice(a:9, b:1)"
            z = "@int(1, 1000, zipf)"
            m = "@maybe(30, 1)"
        "#;
        let (mut a, mut low, mut there) = (0, 0, 0);
        for number in 0..2_000 {
            let found: BTreeMap<String, Tree> = draw(text, number).into_iter().collect();
            a += u32::from(found["c"] == Tree::Text("a".to_owned()));
            low += u32::from(matches!(found["z"], Tree::Int(1..=10)));
            there += u32::from(found.contains_key("m"));
        }
        assert!((1_740..1_860).contains(&a), "{a}");
        assert!((650..950).contains(&low), "{low}");
        assert!((520..680).contains(&there), "{there}");
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_allowed() {
        for (text, words, reason) in [
            ("a = \"@imt(1, 2)\"", "@imt(1, 2)", "@int(LOW, HIGH"),
            ("a = \"@int(2, 1)\"", "@int(2, 1)", "@int(LOW, HIGH"),
            ("a = \"@int(2)\"", "@int(2)", "@int(LOW, HIGH"),
            ("a = \"@text(9..2)\"", "@text(9..2)", "empty"),
            ("a = \"@choice(x:0)\"", "@choice(x:0)", "above 0"),
            ("a = \"@bool(200)\"", "@bool(200)", "0 to 100"),
            ("a = \"@existing(old)\"", "@existing(old)", "latest"),
            ("\"@x\" = 1", "@x", "@repeat"),
            ("a = \"@now\"", "@now", "no such generator"),
        ] {
            let error = template(text).unwrap_err();
            assert_eq!(error.words, words);
            assert!(error.reason.contains(reason), "{text}: {}", error.reason);
        }
    }
}
