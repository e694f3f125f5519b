//! The expiry rules of a collection: a TTL index, the date `_id` of a clustered collection, the
//! time of a measurement. Each rule becomes a filter, so that the search and the check under the
//! lock use the same condition.

use context::ddl::index_spec::ttl_seconds;
use model::{DocBuf, Result, Value};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::MatchFilter;
use query::plan::{Access, Hint, Plan, PlanRequest, plan_read};
use std::sync::Arc;
use store::{Collection, Index};

/// One expiry rule of a collection.
#[derive(Clone)]
pub(super) enum Rule {
    /// The earliest date at the path of this index is older than this many seconds.
    Index(Arc<Index>, i64),
    /// The date in this top-level field is older than this many seconds.
    Field(String, i64),
}

/// The rules of a collection.
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    /// The number of indexes with an invalid rule.
    pub(super) invalid: i64,
    /// The collection has no expiry option at all.
    pub(super) none: bool,
}

/// A number of seconds as the catalog stores it.
fn seconds(v: &Value<'_>, max: i64) -> Option<i64> {
    ttl_seconds(v).filter(|n| (0..=max).contains(n))
}

impl Rules {
    /// The rules in the options and indexes of a collection.
    pub(super) fn of(c: &Collection) -> Rules {
        let options = c.options();
        let (options, indexes) = (options.doc(), c.indexes());
        let none = !state::ttl::says_so(options, indexes.iter().map(|i| i.spec()));
        let mut found = Rules {
            rules: Vec::new(),
            invalid: 0,
            none,
        };
        // The oldest documents of a capped collection are deleted in another way, and no others may
        // be deleted from it.
        if none || c.is_view() || c.is_capped() {
            return found;
        }
        if let Some(n) = seconds(&options.field("expireAfterSeconds"), i64::MAX) {
            let series = options
                .field("timeseries")
                .as_doc()
                .and_then(|d| d.field("timeField").as_str());
            match series {
                Some(time) => found.rules.push(Rule::Field(time.to_owned(), n)),
                None if options.contains("clusteredIndex") => {
                    found.rules.push(Rule::Field("_id".to_owned(), n))
                }
                None => {}
            }
        }
        for index in indexes.iter() {
            let v = index.spec().field("expireAfterSeconds");
            if v.is_missing() {
                continue;
            }
            let single = index.is_keyed()
                && index.fields().len() == 1
                && index
                    .key_pattern()
                    .first()
                    .is_some_and(|(_, v)| v.is_number());
            match seconds(&v, i64::from(i32::MAX)).filter(|_| single) {
                Some(n) if index.is_ready() => found.rules.push(Rule::Index(index.clone(), n)),
                Some(_) => {}
                None => found.invalid += 1,
            }
        }
        found
    }
}

/// A rule at a point in time: a filter of the expired documents, and the way to find them.
pub(super) struct ExpiryQuery {
    pub(super) filter: Arc<MatchFilter>,
    pub(super) plan: Plan,
    pub(super) env: Env,
    /// Every document of the collection is read.
    pub(super) reads_all: bool,
    /// A document may be found more than once; the documents found are remembered in memory until
    /// the end of the walk.
    pub(super) remembers: bool,
    /// Everything up to this time has expired.
    pub(super) until_ms: i64,
}

impl Rule {
    /// # Errors
    /// Those of the planner.
    pub(super) fn at(&self, c: &Collection, now_ms: i64) -> Result<ExpiryQuery> {
        let (path, seconds, index) = match self {
            Rule::Index(index, n) => (
                index.fields().first().map_or("", |f| f.path.as_str()),
                *n,
                Some(index),
            ),
            Rule::Field(name, n) => (name.as_str(), *n, None),
        };
        let until_ms = now_ms.saturating_sub(seconds.saturating_mul(1000));
        let until = Value::Date(until_ms);
        // Dates compare only with dates. For an array, one date that is early enough is sufficient:
        // the earliest decides.
        let mut spec = DocBuf::build(|w| {
            w.doc(path).put("$lte", until);
        });
        if let Some(partial) = index.and_then(|i| {
            i.spec()
                .field("partialFilterExpression")
                .as_doc()
                .map(|d| d.to_buf())
        }) {
            spec = model::doc! { "$and": [&partial, &spec] };
        }
        let mut env = Env::new(now_ms, 1);
        let collation = match index {
            Some(i) => i.collation(),
            None => None,
        };
        if let Some(d) = collation {
            env.collation = query::collation::collator(d)?;
        }
        let filter = Arc::new(MatchFilter::parse(&mut ParseCx::new(&env), spec.doc())?);
        let hint = index.map(|i| Hint::Own(i.name().to_owned()));
        let want = PlanRequest {
            filter: Some(&filter),
            hint: hint.as_ref(),
            collation,
            ..PlanRequest::default()
        };
        let plan = plan_read(c, &want)?;
        // Buckets are found by their start times.
        let reads_all = matches!(plan.access, Access::Collection { .. }) && !c.is_series();
        let remembers = plan.index.as_ref().is_some_and(|i| i.is_multikey());
        Ok(ExpiryQuery {
            filter,
            plan,
            env,
            reads_all,
            remembers,
            until_ms,
        })
    }

    /// The name of the rule, independent of its seconds.
    pub(super) fn name(&self) -> &str {
        match self {
            Rule::Index(index, _) => index.name(),
            Rule::Field(name, _) => name,
        }
    }
}
