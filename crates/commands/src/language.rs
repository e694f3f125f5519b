//! What commands need of the query language beside running queries: compiled filters, checked
//! validators and collations, and the hooks the store calls.

use crate::clock::Clock;
use crate::state::service::Service;
use model::{Bump, Collate, Doc, MongoError, Namespace, Result, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use operators::filter::Filter;
use operators::text::TextSpec;
use std::sync::Arc;
use store::{Hooks, Predicate, Terms};

/// The hooks of the store, made of operators.
pub struct Language {
    clock: Arc<dyn Clock>,
}

impl Language {
    /// With a clock for `$$NOW`.
    pub fn new(clock: Arc<dyn Clock>) -> Language {
        Language { clock }
    }
}

/// Checks a collation document; `None` is the simple order.
///
/// # Errors
/// 40414 without a locale, 14, 2 for a locale or value that is not known.
pub type CheckedCollation = Option<Arc<dyn Collate>>;

impl Hooks for Language {
    fn predicate(&self, filter: Doc<'_>, collation: Option<Doc<'_>>) -> Result<Predicate> {
        let clock = self.clock.clone();
        let collate = collation.map_or(Ok(None), operators_collation)?;
        let filter = Matcher::new(filter, collate, clock.now_ms())?;
        Ok(Arc::new(move |d: Doc<'_>| {
            filter.matches(d, clock.now_ms()).unwrap_or(false)
        }))
    }

    fn collator(&self, spec: Doc<'_>) -> Result<CheckedCollation> {
        operators_collation(spec)
    }

    fn terms(&self, index: Doc<'_>) -> Result<Arc<dyn Terms>> {
        Ok(Arc::new(TextTerms(TextSpec::of_index(index))))
    }
}

/// The terms of documents, for the store.
struct TextTerms(TextSpec);

impl Terms for TextTerms {
    fn each(&self, doc: Doc<'_>, show: &mut dyn FnMut(&str, f64)) -> Result<()> {
        self.0
            .scores(doc)?
            .iter()
            .for_each(|(term, score)| show(term, *score));
        Ok(())
    }

    fn same(&self, old: Doc<'_>, new: Doc<'_>) -> bool {
        self.0.sees_same(old, new)
    }
}

fn operators_collation(spec: Doc<'_>) -> Result<CheckedCollation> {
    query::collation::collator(spec)
}

/// A compiled filter that brings its own environment.
pub struct Matcher(Filter, CheckedCollation);

impl Matcher {
    /// Compiles.
    ///
    /// # Errors
    /// The filter parser's.
    pub fn new(filter: Doc<'_>, collate: CheckedCollation, now_ms: i64) -> Result<Matcher> {
        let mut env = Env::new(now_ms, 1);
        env.collation = collate;
        Matcher::in_env(filter, &env)
    }

    fn in_env(filter: Doc<'_>, env: &Env) -> Result<Matcher> {
        let filter = Filter::parse(&mut ParseCx::new(env), filter)?;
        Ok(Matcher(filter, env.collation.clone()))
    }

    /// Whether a document matches.
    ///
    /// # Errors
    /// Those of `$expr`.
    pub fn matches(&self, doc: Doc<'_>, now_ms: i64) -> Result<bool> {
        let (mut env, arena) = (Env::new(now_ms, 1), Bump::new());
        env.collation.clone_from(&self.1);
        self.0.matches(doc, &arena, &env)
    }
}

impl Service {
    /// Compiles a filter over listings, which have no `$$NOW`.
    ///
    /// # Errors
    /// The filter parser's.
    pub fn listing_matcher(&self, filter: Doc<'_>) -> Result<Matcher> {
        let mut env = Env::new(self.clock.now_ms(), 1);
        env.has_now = false;
        Matcher::in_env(filter, &env)
    }

    /// Compiles a filter.
    ///
    /// # Errors
    /// The filter parser's.
    pub fn matcher(&self, filter: Doc<'_>) -> Result<Matcher> {
        Matcher::new(filter, None, self.clock.now_ms())
    }

    /// The collator a collation describes.
    ///
    /// # Errors
    /// The collation parser's.
    pub fn collator(&self, spec: Doc<'_>) -> Result<CheckedCollation> {
        operators_collation(spec)
    }

    /// Checks a collation.
    ///
    /// # Errors
    /// The collation parser's.
    pub fn check_collation(&self, spec: Doc<'_>) -> Result<()> {
        operators_collation(spec).map(|_| ())
    }

    /// Checks a validator for a namespace.
    ///
    /// # Errors
    /// 72 where validators are not allowed, those of the filter parser, 2 and 5626500 for operators
    /// no validator may use.
    pub fn check_validator(&self, ns: &Namespace, validator: Doc<'_>) -> Result<()> {
        if ns.is_system() || matches!(ns.db(), "admin" | "local" | "config") {
            bail!(
                code::INVALID_OPTIONS,
                "Document validators are not allowed on system collection {ns} or in the database \
                    {}",
                ns.db()
            );
        }
        refuse_operators(validator)?;
        self.matcher(validator).map(|_| ())
    }
}

/// Operators that need an index or a server of scripts.
fn refuse_operators(filter: Doc<'_>) -> Result<()> {
    for (name, value) in filter.iter() {
        match name {
            "$text" | "$where" => {
                return Err(MongoError::bad_value(format!(
                    "{name} is not allowed in a validator"
                )));
            }
            "$near" | "$nearSphere" | "$geoNear" => {
                bail!(5_626_500, "{name} is not allowed in a validator")
            }
            _ => {}
        }
        match value {
            Value::Document(d) if name != "$expr" && name != "$jsonSchema" => refuse_operators(d)?,
            Value::Array(a) if name.starts_with('$') => {
                for d in a.iter().filter_map(|v| v.as_doc()) {
                    refuse_operators(d)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
