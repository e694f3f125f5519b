//! Compiled filters for commands that do not run a query, and the checks of validators and
//! collations.

use crate::service::Service;
use model::{Bump, Collate, Doc, MongoError, Namespace, Result, Value, bail, code};
use operators::expr::ParseCx;
use operators::filter::Filter;
use operators::{Env, Profile, Scripts};
use query::collation::collator;
use std::sync::Arc;

/// The order of a collation; `None` is the simple order by bytes.
pub type CheckedCollation = Option<Arc<dyn Collate>>;

/// A compiled filter with its own environment.
pub struct Matcher(Filter, CheckedCollation, Option<Arc<dyn Scripts>>);

impl Matcher {
    /// Compiles a filter.
    ///
    /// # Errors
    /// The filter parser's.
    pub fn new(
        filter: Doc<'_>,
        collate: CheckedCollation,
        profile: Profile,
        now_ms: i64,
    ) -> Result<Matcher> {
        let mut env = Env::new(now_ms, 1);
        env.profile = profile;
        env.collation = collate;
        Matcher::parse_in(filter, &env)
    }

    fn parse_in(filter: Doc<'_>, env: &Env) -> Result<Matcher> {
        let filter = Filter::parse(&mut ParseCx::new(env), filter)?;
        Ok(Matcher(filter, env.collation.clone(), None))
    }

    /// Whether a document matches.
    ///
    /// # Errors
    /// Those of `$expr`.
    pub fn matches(&self, doc: Doc<'_>, now_ms: i64) -> Result<bool> {
        let (mut env, arena) = (Env::new(now_ms, 1), Bump::new());
        env.collation.clone_from(&self.1);
        env.scripts.clone_from(&self.2);
        self.0.matches(doc, &arena, &env)
    }
}

impl Service {
    /// Compiles a filter over listings, which does not support `$$NOW`.
    ///
    /// # Errors
    /// The filter parser's.
    pub fn listing_matcher(&self, filter: Doc<'_>) -> Result<Matcher> {
        let mut env = self.filter_env();
        env.has_now = false;
        let filter = Filter::parse_without_near(&mut ParseCx::new(&env), filter)?;
        if filter.text().is_some() {
            bail!(code::BAD_VALUE, "$text is not allowed in this context");
        }
        Ok(Matcher(filter, None, None))
    }

    /// Compiles a filter that may contain scripts.
    ///
    /// # Errors
    /// The filter parser's.
    pub fn query_matcher(&self, filter: Doc<'_>) -> Result<Matcher> {
        let mut env = self.filter_env();
        env.scripts = self.scripts();
        let filter = Filter::parse(&mut ParseCx::of_query(&env), filter)?;
        Ok(Matcher(filter, None, self.scripts()))
    }

    /// Compiles a filter.
    ///
    /// # Errors
    /// The filter parser's.
    pub fn matcher(&self, filter: Doc<'_>) -> Result<Matcher> {
        Matcher::parse_in(filter, &self.filter_env())
    }

    /// The environment of a filter outside of a query: the time, and the cluster time if there is
    /// one.
    pub fn filter_env(&self) -> Env {
        let mut env = Env::new(self.clock.now_ms(), 1);
        env.profile = self.config.profile;
        env.cluster_time = self
            .config
            .replica_set
            .as_ref()
            .map(|_| self.operation_time());
        env
    }

    /// The collator a collation describes.
    ///
    /// # Errors
    /// The collation parser's.
    pub fn collator(&self, spec: Doc<'_>) -> Result<CheckedCollation> {
        collator(spec)
    }

    /// Checks a collation.
    ///
    /// # Errors
    /// The collation parser's.
    pub fn check_collation(&self, spec: Doc<'_>) -> Result<()> {
        collator(spec).map(|_| ())
    }

    /// Checks a validator for a namespace.
    ///
    /// # Errors
    /// 72 where validators are not allowed, those of the filter parser, 2 BadValue and 5626500 for
    /// operators no validator may use.
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

/// Refuses functions anywhere in an expression.
fn refuse_scripts(v: Value<'_>) -> Result<()> {
    match v {
        Value::Document(d) => d.iter().try_for_each(|(name, v)| {
            if name == "$function" {
                bail!(4_660_800, "$function cannot be used inside a validator");
            }
            refuse_scripts(v)
        }),
        Value::Array(a) => a.iter().try_for_each(refuse_scripts),
        _ => Ok(()),
    }
}

/// Refuses operators that need an index or the script engine.
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
            Value::Document(d) if name == "$expr" => refuse_scripts(Value::Document(d))?,
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
