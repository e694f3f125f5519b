//! Statements of a workload file: finds, updates, inserts, deletes, pipelines, commands and
//! transactions with generators in them.

use serde::Deserialize;
use toml::{Table, Value};

use super::generator::{DrawContext, Template};
use super::parse::TemplateError;
use super::tree::{Tree, Variables};

/// A statement of a file: exactly one of the kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatementFile {
    /// Its name in steps and results.
    #[serde(default)]
    pub name: String,
    /// The collection, if it is not the workload's.
    collection: Option<String>,
    /// Values drawn once for the whole statement.
    #[serde(default, rename = "let")]
    variables: Table,
    /// Filter of a find.
    find: Option<Table>,
    sort: Option<Table>,
    projection: Option<Table>,
    limit: Option<u32>,
    skip: Option<u32>,
    /// Name of an index.
    hint: Option<String>,
    /// Filter of an update.
    update: Option<Table>,
    /// The change of an update: a document of operators or a pipeline.
    change: Option<Value>,
    /// Whether all matching documents are changed, and not only one.
    #[serde(default)]
    many: bool,
    /// Whether an update without a match inserts a document.
    #[serde(default)]
    upsert: bool,
    /// In a transaction: whether the transaction is aborted if nothing matches.
    #[serde(default)]
    must_match: bool,
    /// A document to insert, or several.
    insert: Option<Value>,
    /// Filter of a delete.
    delete: Option<Table>,
    /// Stages of a pipeline.
    aggregate: Option<Vec<Table>>,
    /// A command of the database.
    command: Option<Table>,
    /// Statements of a transaction.
    transaction: Option<Vec<StatementFile>>,
    /// Whether the statement opens a new connection, sends one ping and closes the connection.
    #[serde(default)]
    connect: bool,
    /// The least number of rows that must be found.
    #[serde(default)]
    expect: u64,
}

/// A statement, ready to be drawn.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its name.
    pub name: String,
    variables: Vec<(String, Template)>,
    action: Action,
    expect: u64,
}

#[derive(Clone, Debug)]
enum Action {
    One(Part),
    Transaction(Vec<Part>),
    Connect,
}

#[derive(Clone, Debug)]
struct Part {
    collection: Option<String>,
    must_match: bool,
    kind: PartKind,
}

#[derive(Clone, Debug)]
enum PartKind {
    Find {
        filter: Template,
        sort: Option<Template>,
        projection: Option<Template>,
        limit: u32,
        skip: u32,
        hint: Option<String>,
    },
    Update {
        filter: Template,
        change: Template,
        many: bool,
        upsert: bool,
    },
    Insert(Vec<Template>),
    Delete {
        filter: Template,
        many: bool,
    },
    Aggregate(Vec<Template>),
    Run(Template),
}

/// A drawn statement.
#[derive(Clone, Debug, PartialEq)]
pub struct StatementCall {
    /// Number of the table that takes the place of the workload's collection.
    pub table: usize,
    /// The command for the target.
    pub command: Command,
    /// Documents that the statement inserts into the workload's collection.
    pub inserts: u64,
    /// Whether the reported rows were deleted from the workload's collection.
    pub deletes: bool,
}

/// The command of a statement for a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// One action in a collection; `None` stands for the workload's collection.
    One(Option<String>, DatabaseAction),
    /// A transaction of several actions: for each its collection, the action, and whether it must
    /// match something.
    Transaction(Vec<(Option<String>, DatabaseAction, bool)>),
    /// Connect, ping, disconnect.
    Connect,
}

/// One action in a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum DatabaseAction {
    /// Find documents and read all of them.
    Find {
        /// The filter.
        filter: Tree,
        /// The order.
        sort: Option<Tree>,
        /// The returned fields.
        projection: Option<Tree>,
        /// The largest number of documents; 0 for all.
        limit: u32,
        /// The number of documents to skip.
        skip: u32,
        /// The name of the index to use.
        hint: Option<String>,
    },
    /// Update one or many.
    Update {
        /// The filter.
        filter: Tree,
        /// Operators or a pipeline.
        change: Tree,
        /// Whether all matching documents are affected.
        many: bool,
        /// Whether an update without a match inserts a document.
        upsert: bool,
    },
    /// Insert.
    Insert(Vec<Tree>),
    /// Delete one or many.
    Delete {
        /// The filter.
        filter: Tree,
        /// Whether all matching documents are affected.
        many: bool,
    },
    /// A pipeline, all of whose results are read.
    Aggregate(Vec<Tree>),
    /// A command.
    Run(Tree),
}

fn wrong(words: &str, reason: &str) -> TemplateError {
    TemplateError {
        words: words.to_owned(),
        reason: reason.to_owned(),
    }
}

const KINDS: &str = "find, update, insert, delete, aggregate, command, transaction or connect";

impl StatementFile {
    /// Checks and compiles the statement.
    ///
    /// # Errors
    /// There is not exactly one kind, the kind does not take an option, or a generator is wrong.
    pub fn compile(&self) -> Result<Statement, TemplateError> {
        if self.name.is_empty() {
            return Err(wrong("[[statement]]", "a statement needs a name"));
        }
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| Ok((name.clone(), Template::parse(value)?)))
            .collect::<Result<Vec<_>, TemplateError>>()?;
        let action = match (&self.transaction, self.connect) {
            (Some(parts), false) => {
                if self.kinds() != 1 || parts.is_empty() {
                    return Err(wrong(
                        &self.name,
                        "a transaction must be a list of statements only",
                    ));
                }
                if parts
                    .iter()
                    .any(|part| part.transaction.is_some() || part.connect)
                {
                    return Err(wrong(
                        &self.name,
                        "a transaction must not contain a transaction",
                    ));
                }
                Action::Transaction(
                    parts
                        .iter()
                        .map(|part| part.part(&self.name))
                        .collect::<Result<_, _>>()?,
                )
            }
            (None, true) if self.kinds() == 1 => Action::Connect,
            (None, false) => Action::One(self.part(&self.name)?),
            _ => return Err(wrong(&self.name, &format!("it must be one of {KINDS}"))),
        };
        let out = Statement {
            name: self.name.clone(),
            variables,
            action,
            expect: self.expect,
        };
        out.check_variables()?;
        Ok(out)
    }

    fn kinds(&self) -> usize {
        let kinds = [
            self.find.is_some(),
            self.update.is_some(),
            self.insert.is_some(),
            self.delete.is_some(),
            self.aggregate.is_some(),
            self.command.is_some(),
            self.transaction.is_some(),
            self.connect,
        ];
        kinds.iter().filter(|is_one| **is_one).count()
    }

    fn part(&self, name: &str) -> Result<Part, TemplateError> {
        if self.kinds() != 1 {
            let reason = format!("it has {} of {KINDS}; it must have one", self.kinds());
            return Err(wrong(name, &reason));
        }
        self.check_options(name)?;
        let table = |table: &Option<Table>| table.as_ref().map(Template::table).transpose();
        let kind = if let Some(filter) = &self.find {
            PartKind::Find {
                filter: Template::table(filter)?,
                sort: table(&self.sort)?,
                projection: table(&self.projection)?,
                limit: self.limit.unwrap_or(0),
                skip: self.skip.unwrap_or(0),
                hint: self.hint.clone(),
            }
        } else if let Some(filter) = &self.update {
            let change = match &self.change {
                Some(change @ (Value::Table(_) | Value::Array(_))) => Template::parse(change)?,
                _ => {
                    let reason = "an update needs change = { \"$set\" = … } or a pipeline [ … ]";
                    return Err(wrong(name, reason));
                }
            };
            PartKind::Update {
                filter: Template::table(filter)?,
                change,
                many: self.many,
                upsert: self.upsert,
            }
        } else if let Some(insert) = &self.insert {
            let documents = match insert {
                Value::Table(document) => vec![Template::table(document)?],
                Value::Array(all) if all.iter().all(Value::is_table) && !all.is_empty() => {
                    all.iter().map(Template::parse).collect::<Result<_, _>>()?
                }
                _ => {
                    return Err(wrong(
                        name,
                        "insert must be a document or a list of documents",
                    ));
                }
            };
            PartKind::Insert(documents)
        } else if let Some(filter) = &self.delete {
            let filter = Template::table(filter)?;
            PartKind::Delete {
                filter,
                many: self.many,
            }
        } else if let Some(stages) = &self.aggregate {
            let stages = stages.iter().map(Template::table);
            PartKind::Aggregate(stages.collect::<Result<_, _>>()?)
        } else if let Some(command) = &self.command {
            PartKind::Run(Template::table(command)?)
        } else {
            return Err(wrong(name, &format!("it must be one of {KINDS}")));
        };
        Ok(Part {
            collection: self.collection.clone(),
            must_match: self.must_match,
            kind,
        })
    }

    /// Refuses options that the kind of statement does not use.
    fn check_options(&self, name: &str) -> Result<(), TemplateError> {
        let (is_find, is_update) = (self.find.is_some(), self.update.is_some());
        let writes = is_update || self.delete.is_some();
        let cases = [
            ("sort", self.sort.is_some(), is_find),
            ("projection", self.projection.is_some(), is_find),
            ("limit", self.limit.is_some(), is_find),
            ("skip", self.skip.is_some(), is_find),
            ("hint", self.hint.is_some(), is_find),
            ("change", self.change.is_some(), is_update),
            ("upsert", self.upsert, is_update),
            ("many", self.many, writes),
            ("must_match", self.must_match, writes),
        ];
        match cases
            .iter()
            .find(|(_, is_given, is_used)| *is_given && !is_used)
        {
            Some((option, ..)) => {
                let reason = format!("{option} has no use in this kind of statement");
                Err(wrong(name, &reason))
            }
            None => Ok(()),
        }
    }
}

impl Statement {
    /// Checks that every variable is defined before its use.
    fn check_variables(&self) -> Result<(), TemplateError> {
        let mut known: Vec<&str> = Vec::new();
        let check = |template: &Template, known: &[&str]| {
            let mut used = Vec::new();
            template.variables(&mut used);
            match used.iter().find(|name| !known.contains(&name.as_str())) {
                Some(name) => {
                    let words = format!("@var({name})");
                    let reason = format!("let gives {}", known.join(", "));
                    Err(wrong(&words, &reason))
                }
                None => Ok(()),
            }
        };
        for (name, value) in &self.variables {
            check(value, &known)?;
            known.push(name);
        }
        for template in self.parts().iter().flat_map(|part| part.templates()) {
            check(template, &known)?;
        }
        Ok(())
    }

    fn parts(&self) -> &[Part] {
        match &self.action {
            Action::One(part) => std::slice::from_ref(part),
            Action::Transaction(parts) => parts,
            Action::Connect => &[],
        }
    }

    /// The least number of rows that the statement must find.
    pub fn expected_rows(&self) -> u64 {
        self.expect
    }

    /// Whether the number of documents in the workload's collection is still known after the
    /// statement.
    pub fn counts(&self) -> bool {
        let is_transaction = matches!(self.action, Action::Transaction(_));
        self.parts().iter().all(|part| match &part.kind {
            _ if part.collection.is_some() => true,
            PartKind::Find { .. } | PartKind::Insert(_) => true,
            PartKind::Update { upsert, .. } => !upsert,
            PartKind::Delete { .. } => !is_transaction,
            PartKind::Aggregate(stages) => !stages.iter().any(writes),
            PartKind::Run(command) => keeps_count(command),
        }) && !(is_transaction
            && self
                .parts()
                .iter()
                .any(|part| part.must_match && self.inserts() > 0))
    }

    fn inserts(&self) -> u64 {
        let of = |part: &Part| match &part.kind {
            PartKind::Insert(documents) if part.collection.is_none() => documents.len() as u64,
            _ => 0,
        };
        self.parts().iter().map(of).sum()
    }

    /// Draws the statement; `draws` has no variables yet.
    pub fn draw(&self, table: usize, draws: &mut DrawContext<'_>) -> StatementCall {
        let mut variables = Variables::new();
        for (name, value) in &self.variables {
            let drawn = value.draw(&mut with_variables(draws, &variables));
            variables.insert(name.clone(), drawn);
        }
        let mut part = |part: &Part| part.kind.draw(&mut with_variables(draws, &variables));
        let command = match &self.action {
            Action::One(one) => Command::One(one.collection.clone(), part(one)),
            Action::Transaction(parts) => Command::Transaction(
                parts
                    .iter()
                    .map(|one| (one.collection.clone(), part(one), one.must_match))
                    .collect(),
            ),
            Action::Connect => Command::Connect,
        };
        let deletes = matches!(&command, Command::One(None, DatabaseAction::Delete { .. }));
        StatementCall {
            table,
            command,
            inserts: self.inserts(),
            deletes,
        }
    }
}

fn with_variables<'a>(draws: &'a mut DrawContext<'_>, variables: &'a Variables) -> DrawContext<'a> {
    DrawContext {
        random: draws.random,
        number: draws.number,
        rows: draws.rows,
        client: draws.client,
        sequence: draws.sequence,
        now_ms: draws.now_ms,
        variables,
        existing: draws.existing,
    }
}

/// Whether a command leaves the number of documents as it is.
fn keeps_count(command: &Template) -> bool {
    let Template::Object(fields) = command else {
        return false;
    };
    let Some((name, _)) = fields.first() else {
        return false;
    };
    let has = |option: &str| fields.iter().any(|(name, _)| name == option);
    match name.as_str() {
        "findAndModify" => !has("remove") && !has("upsert"),
        other => ["find", "count", "distinct", "ping"].contains(&other),
    }
}

fn writes(stage: &Template) -> bool {
    match stage {
        Template::Object(fields) => fields
            .iter()
            .any(|(name, _)| name == "$out" || name == "$merge"),
        _ => false,
    }
}

impl Part {
    fn templates(&self) -> Vec<&Template> {
        match &self.kind {
            PartKind::Find {
                filter,
                sort,
                projection,
                ..
            } => [Some(filter), sort.as_ref(), projection.as_ref()]
                .into_iter()
                .flatten()
                .collect(),
            PartKind::Update { filter, change, .. } => vec![filter, change],
            PartKind::Insert(all) | PartKind::Aggregate(all) => all.iter().collect(),
            PartKind::Delete { filter, .. } => vec![filter],
            PartKind::Run(command) => vec![command],
        }
    }
}

impl PartKind {
    fn draw(&self, draws: &mut DrawContext<'_>) -> DatabaseAction {
        match self {
            Self::Find {
                filter,
                sort,
                projection,
                limit,
                skip,
                hint,
            } => DatabaseAction::Find {
                filter: filter.draw(draws),
                sort: sort.as_ref().map(|sort| sort.draw(draws)),
                projection: projection.as_ref().map(|fields| fields.draw(draws)),
                limit: *limit,
                skip: *skip,
                hint: hint.clone(),
            },
            Self::Update {
                filter,
                change,
                many,
                upsert,
            } => DatabaseAction::Update {
                filter: filter.draw(draws),
                change: change.draw(draws),
                many: *many,
                upsert: *upsert,
            },
            Self::Insert(all) => {
                DatabaseAction::Insert(all.iter().map(|one| one.draw(draws)).collect())
            }
            Self::Delete { filter, many } => DatabaseAction::Delete {
                filter: filter.draw(draws),
                many: *many,
            },
            Self::Aggregate(all) => {
                DatabaseAction::Aggregate(all.iter().map(|stage| stage.draw(draws)).collect())
            }
            Self::Run(command) => DatabaseAction::Run(command.draw(draws)),
        }
    }
}

#[cfg(test)]
mod tests;
