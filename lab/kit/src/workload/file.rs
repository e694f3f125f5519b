//! A workload from a user's file: read, checked, completed.
//!
//! Promises: an error names the line and the allowed values; a file that was read without an error
//! can be run. Must not know: targets.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::beside::Agreement;
use super::choices::Stop;
use super::definition::{DocumentKind, Operation, Role, Step, Workload, WorkloadError};
use super::settings::Settings;
use crate::template::{Shape, Statement, Template, TemplateError};

/// The largest number of readers of changes.
const READERS_MAX: u32 = 10_000;
/// The characters allowed in the name of a user's workload.
const NAME_LETTERS: &str = "letters, digits, - and _";

impl Workload {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong; the error then names the line.
    pub fn read(path: &Path) -> Result<Self, WorkloadError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| WorkloadError::File(format!("{}: {error}", path.display())))?;
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        Self::parse(&text, &stem.unwrap_or_default()).map_err(|(line, reason)| {
            WorkloadError::File(format!("{}:{line}: {reason}", path.display()))
        })
    }

    /// The text of the workload `name`, which may be a file of the user's.
    ///
    /// # Errors
    /// There is no such workload, or its file cannot be read.
    pub fn text(name: &str) -> Result<String, WorkloadError> {
        if name.ends_with(".toml") {
            let failed = |error| WorkloadError::File(format!("{name}: {error}"));
            return std::fs::read_to_string(name).map_err(failed);
        }
        Self::built_in(name).map(str::to_owned)
    }

    /// Parses a workload and its settings that another machine sent. No file is read, whatever the
    /// text says: recorded arrivals are left out, because the sender sends them separately.
    ///
    /// # Errors
    /// The text or the settings are wrong.
    pub fn parse_sent(text: &str, name: &str, settings: &Settings) -> Result<Self, WorkloadError> {
        let wrong = |reason: String| WorkloadError::File(format!("sent by the lab: {reason}"));
        let mut table: toml::Table =
            toml::from_str(text).map_err(|error| wrong(error.message().to_owned()))?;
        table
            .iter_mut()
            .for_each(|(_, value)| forget_recordings(value));
        let mut out: Self = table
            .try_into()
            .map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        out.complete(name)
            .map_err(|error| wrong(format!("{}: {}", error.words, error.reason)))?;
        if settings.arrivals.as_deref().is_some_and(is_recording) {
            return Err(wrong("arrivals that name a file".to_owned()));
        }
        out.check(settings)?;
        Ok(out.adapt(settings))
    }

    /// Parses the text of a file; `stem` is the workload's name if the file gives none. An error
    /// has its line.
    pub(super) fn parse(text: &str, stem: &str) -> Result<Self, (usize, String)> {
        let mut out: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            (line_at(text, at), error.message().replace('\n', "; "))
        })?;
        out.complete(stem).map_err(|error| {
            let at = text.find(&error.words).unwrap_or(0);
            (
                line_at(text, at),
                format!("{}: {}", error.words, error.reason),
            )
        })?;
        Ok(out)
    }

    fn complete(&mut self, stem: &str) -> Result<(), TemplateError> {
        let wrong = |words: &str, reason: String| TemplateError {
            words: words.to_owned(),
            reason,
        };
        if self.name.is_empty() {
            self.name = stem.to_owned();
        }
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if self.name.is_empty() || !self.name.chars().all(fits) {
            return Err(wrong(
                &self.name,
                format!("a name must consist of {NAME_LETTERS}"),
            ));
        }
        if self.title.is_empty() {
            self.title = self.name.clone();
        }
        if let Some(document) = &self.data.document {
            self.data.documents = DocumentKind::Custom(Shape::parse(document)?);
        }
        let mut statements: Vec<Statement> = Vec::new();
        for file in &self.statement_files {
            let statement = file.compile()?;
            if statements.iter().any(|other| other.name == statement.name) {
                let reason = "two statements have the same name".to_owned();
                return Err(wrong(&statement.name, reason));
            }
            if operation(&statement.name).is_some() {
                let reason = "it is the name of an operation of the lab".to_owned();
                return Err(wrong(&statement.name, reason));
            }
            statements.push(statement);
        }
        self.statements = Arc::new(statements);
        for invariant in &self.invariants {
            invariant
                .pipeline
                .iter()
                .try_for_each(|stage| Template::table(stage).map(drop))?;
        }
        let procedures = self.procedures();
        let names: Vec<String> = self.steps.iter().map(|step| step.name.clone()).collect();
        for (at, step) in self.steps.iter_mut().enumerate() {
            if names.iter().take(at).any(|name| *name == step.name) {
                return Err(wrong(&step.name, "two steps have the same name".to_owned()));
            }
            step.complete(&self.statements, procedures)?;
        }
        if !self.steps.iter().any(|step| step.measured) {
            let reason = "no step is measured: one needs measured = true".to_owned();
            return Err(wrong("[[step]]", reason));
        }
        Ok(())
    }
}

impl Step {
    fn complete(
        &mut self,
        statements: &Arc<Vec<Statement>>,
        procedures: &[&str],
    ) -> Result<(), TemplateError> {
        let wrong = |words: &str, reason: &str| TemplateError {
            words: words.to_owned(),
            reason: reason.to_owned(),
        };
        for role in self.background.iter_mut().chain([&mut self.work]) {
            role.complete(statements, procedures, &self.name)?;
        }
        let is_action = self.work.operation.is_action();
        if is_action && self.stop != Stop::Done {
            return Err(wrong(&self.name, "an action ends by itself: no stop"));
        }
        if !is_action && self.stop == Stop::Done {
            self.stop = match self.work.operation {
                Operation::Insert if self.seconds.is_none() => Stop::Rows,
                Operation::Load => Stop::Rows,
                _ => Stop::Seconds,
            };
        }
        let shares = self.background.iter().filter_map(|role| role.between);
        let is_share = |share: &[f64; 2]| 0.0 <= share[0] && share[0] < share[1] && share[1] <= 1.0;
        if self.work.between.is_some() || !shares.clone().all(|share| is_share(&share)) {
            let reason = "between = [FROM, UNTIL] are shares from 0 to 1 of a background's time";
            return Err(wrong("between", reason));
        }
        self.check_watched()?;
        let is_command = self.work.operation == Operation::Command;
        if is_command != self.command.is_some() {
            let reason = "operation = \"command\" and command = { … } belong together";
            return Err(wrong(&self.name, reason));
        }
        let commands = self.command.iter();
        for command in commands.chain(self.during.iter().map(|one| &one.command)) {
            Template::table(command)?;
        }
        if self
            .during
            .iter()
            .any(|one| !(0.0..1e9).contains(&one.after_seconds))
        {
            return Err(wrong("after_seconds", "allowed is 0 or more"));
        }
        Ok(())
    }
}

impl Step {
    /// Checks that the observations of each step fit the step.
    fn check_watched(&self) -> Result<(), TemplateError> {
        let wrong = |words: &str, reason: String| TemplateError {
            words: words.to_owned(),
            reason,
        };
        let is_timed = self.measured && self.stop == Stop::Seconds;
        if let Some(readers) = self.readers {
            let is_alone = self.background.is_empty() && self.work.mix.len() == 1;
            let allowed = 1..=READERS_MAX;
            if !(allowed.contains(&readers) && is_timed && is_alone) {
                let reason = format!(
                    "allowed are 1 to {READERS_MAX} readers of a measured step that time ends and \
                    that does one statement, without a background"
                );
                return Err(wrong("readers", reason));
            }
        }
        self.agree.iter().try_for_each(Agreement::check)?;
        if self.recall.is_some() && !(is_timed && self.work.mix.len() == 1) {
            let reason = "only of a measured step that time ends and that does one statement";
            return Err(wrong("recall", reason.to_owned()));
        }
        if self.program && !is_timed {
            let reason = "only beside a measured step that time ends";
            return Err(wrong("program", reason.to_owned()));
        }
        if let Some(rule) = &self.expiry
            && !(is_timed && (1..=3_600).contains(&rule.after_seconds))
        {
            let reason = "allowed are 1 to 3600 seconds, in a measured step that time ends";
            return Err(wrong("expiry", reason.to_owned()));
        }
        Ok(())
    }
}

impl Role {
    fn complete(
        &mut self,
        statements: &Arc<Vec<Statement>>,
        procedures: &[&str],
        step: &str,
    ) -> Result<(), TemplateError> {
        let wrong = |words: &str, reason: String| TemplateError {
            words: words.to_owned(),
            reason,
        };
        self.compiled = statements.clone();
        for (name, weight) in std::mem::take(&mut self.statements) {
            let number = statements.iter().position(|one| one.name == name);
            let procedure = procedures.iter().position(|one| *one == name);
            let small = |number: usize| u16::try_from(number).ok();
            let found = number
                .and_then(small)
                .map(Operation::Statement)
                .or_else(|| procedure.and_then(small).map(Operation::Procedure))
                .or_else(|| operation(&name));
            let found = found.filter(|one| !one.is_action() && *one != Operation::Mix);
            let Some(found) = found else {
                let names = statements.iter().map(|one| one.name.as_str());
                let names: Vec<&str> = names.chain(procedures.iter().copied()).collect();
                return Err(wrong(
                    &format!("\"{name}\""),
                    format!(
                        "the statement is unknown; there are {} and the operations of the lab",
                        names.join(", ")
                    ),
                ));
            };
            if !(weight > 0.0 && weight.is_finite()) {
                let reason = format!("the weight is {weight}; it must be above 0");
                return Err(wrong(&format!("\"{name}\""), reason));
            }
            self.mix.push((found, weight));
        }
        if (self.operation == Operation::Mix) == self.mix.is_empty() {
            let reason = "its work needs operation = \"…\", statements = [[NAME, WEIGHT], …] or \
                          mix = [[OPERATION, WEIGHT], …]";
            return Err(wrong(step, reason.to_owned()));
        }
        Ok(())
    }
}

/// Whether arrivals come from a recorded file.
fn is_recording(arrivals: &str) -> bool {
    arrivals.starts_with("recorded:")
}

/// Removes recorded arrivals everywhere in the file.
fn forget_recordings(value: &mut toml::Value) {
    match value {
        toml::Value::Table(table) => {
            let named = table.get("arrivals").and_then(toml::Value::as_str);
            if named.is_some_and(is_recording) {
                table.remove("arrivals");
            }
            table
                .iter_mut()
                .for_each(|(_, value)| forget_recordings(value));
        }
        toml::Value::Array(items) => items.iter_mut().for_each(forget_recordings),
        _ => {}
    }
}

/// An operation of the lab by its name.
fn operation(name: &str) -> Option<Operation> {
    let word = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
    Operation::deserialize(word).ok()
}

/// The line of a position, from 1.
fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Overrides;

    const GOOD: &str = r#"
[data]
collection = "orders"
document = { customer = "@int(1, 100)", lines = [{ sku = "@digits(5)" }] }

[[statement]]
name = "by-customer"
find = { customer = "@int(1, 100)" }
limit = 5

[[step]]
name = "load"
work = { operation = "insert", batch = 100 }

[[step]]
name = "mixed"
measured = true
work = { statements = [["by-customer", 3], ["insert", 1]] }

[defaults]
rows = 1000
seconds = 2
"#;

    #[test]
    fn a_file_is_completed() {
        let workload = Workload::parse(GOOD, "mine").unwrap();
        assert_eq!(
            (workload.name.as_str(), workload.title.as_str()),
            ("mine", "mine")
        );
        let [load, mixed] = workload.steps.as_slice() else {
            panic!();
        };
        assert_eq!((load.stop, mixed.stop), (Stop::Rows, Stop::Seconds));
        assert_eq!(
            mixed.work.mix,
            [(Operation::Statement(0), 3.0), (Operation::Insert, 1.0)]
        );
        assert_eq!(
            workload.operation_name(Operation::Statement(0)),
            "by-customer"
        );
        let settings = workload.settings("smoke", Overrides::default()).unwrap();
        assert_eq!((settings.rows, settings.seconds), (1_000, Some(2)));
        assert!(workload.row_bytes(0) >= 8);
    }

    #[test]
    fn a_text_that_was_sent_reads_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let times = dir.path().join("times");
        std::fs::write(&times, "0.5\n").unwrap();
        let recorded = format!("arrivals = \"recorded:{}\", statements", times.display());
        let text = GOOD.replace("statements", &recorded);
        let read = Workload::parse(&text, "mine").unwrap();
        assert!(read.steps[1].work.arrivals.is_some());
        let mut settings = read.settings("smoke", Overrides::default()).unwrap();
        let sent = Workload::parse_sent(&text, "mine", &settings).unwrap();
        assert_eq!((sent.name.as_str(), sent.steps.len()), ("mine", 2));
        assert!(sent.steps[1].work.arrivals.is_none(), "the file was read");
        settings.arrivals = Some(format!("recorded:{}", times.display()));
        let refused = Workload::parse_sent(&text, "mine", &settings).unwrap_err();
        assert!(refused.to_string().contains("name a file"), "{refused}");
        (settings.arrivals, settings.clients) = (None, 5_000);
        let refused = Workload::parse_sent(&text, "mine", &settings).unwrap_err();
        assert!(refused.to_string().contains("1 to 4096"), "{refused}");
        assert!(Workload::parse_sent("[data", "mine", &settings).is_err());
        for workload in Workload::all().unwrap() {
            let text = Workload::text(&workload.name).unwrap();
            let (preset, settings) = workload.presets().remove(0);
            let sent = Workload::parse_sent(&text, "", &settings);
            assert!(sent.is_ok(), "{} {preset}: {sent:?}", workload.name);
        }
        assert!(Workload::text("lunch").is_err());
    }

    #[test]
    fn errors_of_a_workload_file_name_the_line_and_the_reason() {
        for (from, to, line, reason) in [
            ("limit = 5", "limits = 5", 9, "expected one of"),
            ("@digits(5)", "@digit(5)", 4, "no such generator"),
            (
                "[\"insert\", 1]",
                "[\"insrt\", 1]",
                18,
                "the statement is unknown; there are by-customer",
            ),
            ("measured = true", "measured = 1", 17, "bool"),
            ("measured = true\n", "", 11, "no step is measured"),
            (
                "operation = \"insert\"",
                "operation = \"create-indexs\"",
                13,
                "expected one of",
            ),
            (
                "name = \"mixed\"",
                "name = \"load\"",
                12,
                "two steps have the same name",
            ),
            (
                "find = { customer",
                "delete = { customer",
                7,
                "limit has no use",
            ),
            ("rows = 1000", "rows = 1000\nrow = 1", 22, "expected one of"),
            ("collection = \"orders\"", "", 2, "collection"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            let (found, told) = Workload::parse(&text, "mine").unwrap_err();
            assert!(told.contains(reason), "{to}: {told}");
            assert_eq!(found, line, "{to}: {told}");
        }
    }
}
