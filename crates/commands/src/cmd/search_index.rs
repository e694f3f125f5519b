//! `createSearchIndexes`, `updateSearchIndex`, `dropSearchIndex`, `listSearchIndexes`: they change
//! the definitions of search indexes in the catalog; the feeder builds the indexes. Errors: 31082
//! without a log, 8 for invalid definitions, 26, 27, 68, 166.

use context::command::Command;
use context::ctx::Ctx;
use context::ddl::names;
use context::read::listing::Listing;
use context::read::search::{is_named, list as described, no_search_error};
use model::{Doc, DocBuf, MongoError, Namespace, ObjectId, Result, Tag, Value, bail, code};
use request::Outcome;
use request::args::{Kind, arg, wrong_type};
use request::spec::{Privilege, flag};
use state::cursors::{BatchLimit, CursorInfo};
use state::search::SearchDefinition;
use std::sync::Arc;
use store::Collection;

/// Most search indexes of a collection.
const INDEXES_MAX: usize = 64;
const DEFAULT_NAME: &str = "default";
const CHANGES: u32 = flag::API_V1 | flag::WRITE_CONCERN | flag::WRITE | flag::RESUMABLE;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "createSearchIndexes",
        "creates search indexes",
        Privilege::Collection(&[auth::Action::CreateSearchIndexes]),
        CHANGES,
        &[arg("indexes", Kind::Array).required()],
        create,
    )
    .value(Kind::Collection),
    Command::new(
        "dropSearchIndex",
        "drops a search index",
        Privilege::Collection(&[auth::Action::DropSearchIndex]),
        CHANGES,
        &[arg("id", Kind::Str), arg("name", Kind::Str)],
        drop_index,
    )
    .value(Kind::Collection),
    Command::new(
        "listSearchIndexes",
        "search indexes of a collection",
        Privilege::Collection(&[auth::Action::ListSearchIndexes]),
        flag::API_V1,
        &[arg("id", Kind::Str), arg("name", Kind::Str)],
        list,
    )
    .value(Kind::Collection),
    Command::new(
        "updateSearchIndex",
        "changes a search index",
        Privilege::Collection(&[auth::Action::UpdateSearchIndex]),
        CHANGES,
        &[
            arg("id", Kind::Str),
            arg("name", Kind::Str),
            arg("definition", Kind::Object).required(),
        ],
        update,
    )
    .value(Kind::Collection),
];

/// The namespace; fails on a server without search.
fn namespace(cx: &Ctx<'_, '_>) -> Result<Namespace> {
    let ns = names::read_collection(cx)?;
    match cx.service.has_search() {
        true => Ok(ns),
        false => Err(no_search_error()),
    }
}

/// The collection whose definitions are changed.
fn collection(cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<Arc<Collection>> {
    let c = cx.collection(ns)?.ok_or_else(|| {
        MongoError::new(
            code::NAMESPACE_NOT_FOUND,
            format!("Collection '{ns}' does not exist."),
        )
    })?;
    if c.is_view() || names::is_timeseries(&c) || c.is_log() {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "{ns} is no plain collection, which search indexes need"
        );
    }
    Ok(c)
}

/// One element of `indexes`: `{name, type, definition}`.
fn parse_index(n: usize, spec: Doc<'_>, at_ms: i64) -> Result<SearchDefinition> {
    let path = format!("createSearchIndexes.indexes.{n}");
    let (mut name, mut kind, mut definition) = (DEFAULT_NAME, "search", None);
    for (field, v) in spec.iter() {
        let full = format!("{path}.{field}");
        match (field, v) {
            ("name", Value::String(s)) => name = s,
            ("type", Value::String(s)) => kind = s,
            ("definition", Value::Document(d)) => definition = Some(d),
            ("name" | "type", v) => return Err(wrong_type(&full, &v, &[Tag::STRING])),
            ("definition", v) => return Err(wrong_type(&full, &v, &[Tag::DOCUMENT])),
            _ => bail!(40415, "BSON field '{full}' is an unknown field."),
        }
    }
    let Some(definition) = definition else {
        bail!(
            40414,
            "BSON field '{path}.definition' is missing but a required field"
        );
    };
    if name.is_empty() {
        bail!(
            code::BAD_VALUE,
            "the name of a search index cannot be empty"
        );
    }
    let mut id = [0u8; 12];
    let seconds = u32::try_from(at_ms / 1000).unwrap_or(0);
    id[..4].copy_from_slice(&seconds.to_be_bytes());
    id[4..].copy_from_slice(&rand::random::<[u8; 8]>());
    let new = SearchDefinition::new(&ObjectId(id).to_hex(), name, kind, at_ms, definition);
    new.parse()?;
    Ok(new)
}

fn create(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = namespace(cx)?;
    let specs = cx.args.documents("createSearchIndexes", "indexes")?;
    let now = cx.now_ms();
    let new = (0..).zip(specs).map(|(n, d)| parse_index(n, d, now));
    let new = new.collect::<Result<Vec<_>>>()?;
    let c = collection(cx, &ns)?;
    c.writer(&cx.operation).alter_search_indexes(|list| {
        for d in &new {
            let twice = list
                .iter()
                .any(|old| SearchDefinition::from_stored(old).name() == d.name());
            if twice {
                bail!(
                    code::INDEX_ALREADY_EXISTS,
                    "Index already exists: {ns} has a search index named {}",
                    d.name()
                );
            }
            list.push(d.clone().into_stored());
        }
        if list.len() > INDEXES_MAX {
            bail!(
                code::CANNOT_CREATE_INDEX,
                "{ns} may have {INDEXES_MAX} search indexes at most"
            );
        }
        Ok(())
    })?;
    cx.service.search.note(&ns);
    let mut made = cx.reply.array("indexesCreated");
    for d in &new {
        made.doc().put("id", d.id()).put("name", d.name());
    }
    drop(made);
    Ok(Outcome::Reply)
}

/// The id or name of the index in a command.
fn read_index_name<'a>(cx: &Ctx<'a, '_>) -> Result<(Option<&'a str>, Option<&'a str>)> {
    let (id, name) = (cx.args.str("id"), cx.args.str("name"));
    if id.is_some() == name.is_some() {
        bail!(
            code::FAILED_TO_PARSE,
            "{} needs either the id or the name of a search index",
            cx.command.name
        );
    }
    Ok((id, name))
}

/// Changes the definition that a command names.
fn change(
    cx: &Ctx<'_, '_>,
    ns: &Namespace,
    f: &dyn Fn(&SearchDefinition) -> Result<Option<SearchDefinition>>,
) -> Result<()> {
    let (id, name) = read_index_name(cx)?;
    let c = collection(cx, ns)?;
    c.writer(&cx.operation).alter_search_indexes(|list| {
        let found = list
            .iter()
            .position(|d| is_named(&SearchDefinition::from_stored(d), id, name));
        let Some(at) = found else {
            bail!(
                code::INDEX_NOT_FOUND,
                "{ns} has no search index '{}'",
                id.or(name).unwrap_or_default()
            );
        };
        let old = SearchDefinition::from_stored(&list.remove(at));
        if let Some(new) = f(&old)? {
            list.insert(at, new.into_stored());
        }
        Ok(())
    })?;
    cx.service.search.note(ns);
    Ok(())
}

fn drop_index(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = namespace(cx)?;
    change(cx, &ns, &|_| Ok(None))?;
    Ok(Outcome::Reply)
}

fn update(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = namespace(cx)?;
    let spec = cx.request.body.field("definition");
    let spec = spec.as_doc().unwrap_or(Doc::EMPTY);
    let now = cx.now_ms();
    change(cx, &ns, &|old| {
        let new = old.with_spec(now, spec);
        new.parse()?;
        Ok(Some(new))
    })?;
    Ok(Outcome::Reply)
}

fn list(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = namespace(cx)?;
    let spec = DocBuf::build(|w| {
        for field in ["id", "name"] {
            if let Some(s) = cx.args.str(field) {
                w.put(field, s);
            }
        }
    });
    let c = cx.collection(&ns)?;
    let all = described(cx.service, c.as_ref(), spec.doc())?;
    let info = CursorInfo {
        ns: ns.to_string(),
        ..cx.cursor_info()
    };
    cx.first_batch(
        Box::new(Listing::new(all)),
        info,
        BatchLimit::of(None),
        false,
    )?;
    Ok(Outcome::Reply)
}
