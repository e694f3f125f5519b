//! `$regexFind`, `$regexFindAll`, `$regexMatch`: `{input, regex, options}`. A match is `{match,
//! idx, captures}`, `idx` in code points. A null or missing input or regex gives null, no match,
//! false. A constant regex is compiled once.
//!
//! 51103 no object, 31024 an unknown field, 31022 / 31023 no `input` / `regex`, 51104 / 51105 /
//! 51106 `input` / `regex` / `options` of a wrong type, 51107 options given twice, 51108 an unknown
//! option, 51109 / 51110 a null character in the pattern / the options, 51111 a pattern that does
//! not compile, 51156 a match that takes too long, 51151 matches of more than 64 MB.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use crate::regex::{CompiledPattern, Refusal, Regex};
use model::{Array, Doc, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$regexFind",
        parse: |cx, name, spec| parse_regex(cx, name, spec, RegexOutput::First),
    },
    Operator {
        name: "$regexFindAll",
        parse: |cx, name, spec| parse_regex(cx, name, spec, RegexOutput::All),
    },
    Operator {
        name: "$regexMatch",
        parse: |cx, name, spec| parse_regex(cx, name, spec, RegexOutput::Whether),
    },
];

/// Most bytes of all matches of `$regexFindAll`.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Copy)]
enum RegexOutput {
    First,
    All,
    Whether,
}

fn parse_regex(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    answer: RegexOutput,
) -> Result<BoxExpr> {
    let Value::Document(spec) = spec else {
        bail!(
            51103,
            "{name} expects an object of named arguments but found: {}",
            spec.type_name()
        );
    };
    let (mut input, mut regex, mut options) = (None, None, None);
    for (field, v) in spec.iter() {
        match field {
            "input" => input = Some(parse(cx, v)?),
            "regex" => regex = Some(parse(cx, v)?),
            "options" => options = Some(parse(cx, v)?),
            _ => bail!(
                31024,
                "{name} found an unknown argument: {field}; allowed are input, \
                regex, options"
            ),
        }
    }
    let Some(input) = input else {
        bail!(31022, "{name} requires 'input' parameter")
    };
    let Some(regex) = regex else {
        bail!(31023, "{name} requires 'regex' parameter")
    };
    let constant_options = options
        .as_ref()
        .map_or(Some(Value::Missing), |e| e.constant());
    let compiled = match (regex.constant(), constant_options) {
        (Some(regex), Some(options)) => Some(compile(name, &regex, &options)?),
        _ => None,
    };
    Ok(Box::new(Search {
        name,
        input,
        regex,
        options,
        compiled,
        answer,
    }))
}

struct Search {
    name: &'static str,
    input: BoxExpr,
    regex: BoxExpr,
    options: Option<BoxExpr>,
    /// The regex of constant operands; `Some(None)` for null.
    compiled: Option<Option<Regex>>,
    answer: RegexOutput,
}

impl Expr for Search {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let fresh;
        let regex = match &self.compiled {
            Some(regex) => regex,
            None => {
                let options = self
                    .options
                    .as_ref()
                    .map_or(Ok(Value::Missing), |e| e.eval(cx))?;
                fresh = compile(self.name, &self.regex.eval(cx)?, &options)?;
                &fresh
            }
        };
        let input = match self.input.eval(cx)? {
            v if v.is_nullish() => None,
            Value::String(s) => Some(s),
            v => bail!(
                51104,
                "{} needs 'input' to be of type string, found: {}",
                self.name,
                v.type_name()
            ),
        };
        match (input, regex, self.answer) {
            (Some(text), Some(regex), RegexOutput::Whether) => {
                regex.is_match(text).map(Value::Bool)
            }
            (Some(text), Some(regex), RegexOutput::First) => {
                first(cx, text, regex.compile_for(text)?)
            }
            (Some(text), Some(regex), RegexOutput::All) => all(cx, text, regex.compile_for(text)?),
            (_, _, RegexOutput::Whether) => Ok(Value::Bool(false)),
            (_, _, RegexOutput::First) => Ok(Value::Null),
            (_, _, RegexOutput::All) => Ok(Value::Array(Array::EMPTY)),
        }
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        each(self.regex.as_ref());
        self.options.iter().for_each(|e| each(e.as_ref()));
    }
}

fn compile(name: &str, regex: &Value<'_>, options: &Value<'_>) -> Result<Option<Regex>> {
    let (pattern, own_options) = match regex {
        v if v.is_nullish() => ("", None),
        Value::String(s) => (*s, None),
        Value::Regex(r) => (r.pattern, Some(r.options).filter(|o| !o.is_empty())),
        v => bail!(
            51105,
            "{name} needs 'regex' to be of type string or regex, found: {}",
            v.type_name()
        ),
    };
    let options = match options {
        v if v.is_nullish() => own_options.unwrap_or(""),
        Value::String(_) if own_options.is_some() => {
            bail!(
                51107,
                "{name}: found regex option(s) specified in both 'regex' and 'option' \
                fields"
            )
        }
        Value::String(s) => *s,
        v => bail!(
            51106,
            "{name} needs 'options' to be of type string, found: {}",
            v.type_name()
        ),
    };
    if regex.is_nullish() {
        return Ok(None);
    }
    if pattern.contains('\0') {
        bail!(
            51109,
            "{name}: regular expression cannot contain an embedded null byte"
        );
    }
    if options.contains('\0') {
        bail!(
            51110,
            "{name}: regular expression options cannot contain an embedded null byte"
        );
    }
    match Regex::new(pattern, options) {
        Ok(regex) => Ok(Some(regex)),
        Err(Refusal::Option(c)) => bail!(
            51108,
            "{name} invalid flag in regex options: {c}; \
            allowed are i, m, s, x, u"
        ),
        Err(Refusal::Pattern(why)) => bail!(51111, "Invalid Regex in {name}: {why}"),
    }
}

fn first<'a>(cx: &Cx<'_, 'a>, text: &'a str, regex: &CompiledPattern) -> Result<Value<'a>> {
    let mut places = regex.places();
    Ok(match regex.find_at(&mut places, text, 0)? {
        true => describe_match(
            cx,
            text,
            &places,
            code_points(text, 0, places.get(0).map_or(0, |p| p.0)),
        ),
        false => Value::Null,
    })
}

fn all<'a>(cx: &Cx<'_, 'a>, text: &'a str, regex: &CompiledPattern) -> Result<Value<'a>> {
    let mut places = regex.places();
    let mut matches = Vec::new();
    let (mut made, before) = (0, cx.arena.allocated_bytes());
    // The first `counted` bytes of the text are `index` code points.
    let (mut from, mut counted, mut index) = (0, 0, 0);
    while regex.find_at(&mut places, text, from)? {
        let Some((start, end)) = places.get(0) else {
            break;
        };
        index += code_points(text, counted, start);
        counted = start;
        // Bytes of the matches in the result, or their current bytes in memory, whichever is more.
        if made.max(cx.arena.allocated_bytes().saturating_sub(before)) > OUTPUT_BYTES_MAX {
            bail!(
                51151,
                "$regexFindAll: the size of buffer to store output exceeded the 64MB \
                limit"
            );
        }
        // The engine may scan all of the remaining text.
        cx.env.work(1 + (text.len() - start) / 64)?;
        cx.spend(64)?;
        let one = describe_match(cx, text, &places, index);
        made += crate::cx::bytes_of(&one) + size_of::<Value<'_>>();
        matches.push(one);
        // After an empty match, continue one code point later; at the end of a text that is not
        // empty, stop.
        let step = text
            .get(end..)
            .and_then(|rest| rest.chars().next())
            .map_or(1, char::len_utf8);
        from = if end > start { end } else { end + step };
        if from >= text.len() {
            break;
        }
    }
    cx.array(&matches)
}

fn code_points(text: &str, from: usize, to: usize) -> i32 {
    let count = text.get(from..to).map_or(0, |part| part.chars().count());
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn describe_match<'a>(
    cx: &Cx<'_, 'a>,
    text: &'a str,
    places: &pcre2::bytes::CaptureLocations,
    index: i32,
) -> Value<'a> {
    let group = |i: usize| {
        places
            .get(i)
            .and_then(|(start, end)| text.get(start..end))
            .map_or(Value::Null, Value::String)
    };
    Value::Document(Doc::build_in(cx.arena, |w| {
        w.put("match", group(0)).put("idx", index);
        let mut captures = w.array("captures");
        for i in 1..places.len() {
            captures.push(group(i));
        }
    }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (
                r#"{"$regexFind": {"input": "éab", "regex": "(a)(x)?"}}"#,
                r#"object { match: "a", idx: 1, captures: [ "a", null ] }"#,
            ),
            (
                r#"{"$regexFind": {"input": "x", "regex": "y"}}"#,
                "null null",
            ),
            (
                r#"{"$regexFind": {"input": "$missing", "regex": "y"}}"#,
                "null null",
            ),
            (
                r#"{"$regexFindAll": {"input": "$s", "regex": "$n"}}"#,
                "array []",
            ),
            (
                r#"{"$regexFindAll": {"input": "aéa", "regex": "a"}}"#,
                "array [ { match: \"a\", idx: 0, captures: [] }, \
                    { match: \"a\", idx: 2, captures: [] } ]",
            ),
            (
                r#"{"$regexFindAll": {"input": "ab", "regex": ""}}"#,
                "array [ { match: \"\", idx: 0, captures: [] }, \
                    { match: \"\", idx: 1, captures: [] } ]",
            ),
            (
                r#"{"$regexMatch": {"input": "$s", "regex": "X", "options": "i"}}"#,
                "bool true",
            ),
            (
                r#"{"$regexMatch": {"input": "$n", "regex": "X"}}"#,
                "bool false",
            ),
            (
                r#"{"$regexMatch": {"input": 1, "regex": "x"}}"#,
                "error 51104",
            ),
            (
                r#"{"$regexMatch": {"input": 1, "regex": 1}}"#,
                "error 51105",
            ),
            (
                r#"{"$regexMatch": {"input": "$s", "regex": 1}}"#,
                "error 51105",
            ),
            (
                r#"{"$regexMatch": {"input": "$s", "regex": null, "options": 1}}"#,
                "error 51106",
            ),
            (
                r#"{"$regexMatch": {"input": "$s",
                    "regex": {"$regularExpression": {"pattern": "x", "options": "i"}},
                        "options": ""}}"#,
                "error 51107",
            ),
            (
                r#"{"$regexMatch": {"input": "$s", "regex": "x", "options": "I"}}"#,
                "error 51108",
            ),
            (
                r#"{"$regexMatch": {"input": "$s", "regex": "\u0000"}}"#,
                "error 51109",
            ),
            (
                r#"{"$regexMatch": {"input": "$s", "regex": "x", "options": "\u0000"}}"#,
                "error 51110",
            ),
            (
                r#"{"$regexMatch": {"input": "$s", "regex": "("}}"#,
                "error 51111",
            ),
            (r#"{"$regexMatch": {"input": "$s"}}"#, "error 31023"),
            (r#"{"$regexMatch": {"regex": "x"}}"#, "error 31022"),
            (r#"{"$regexMatch": {"in": "x"}}"#, "error 31024"),
            (r#"{"$regexMatch": "x"}"#, "error 51103"),
        ]);
    }
}
