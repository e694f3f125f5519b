//! LinkBench: nodes, links between them, and how many links each node has, in three tables.
//!
//! Promises: a link and its count change in one transaction; checks compare the counts with the
//! visible links and make sure that nothing committed is missing. Differs: nodes are drawn by a
//! power law instead of LinkBench's measured distributions; deleted links stay, hidden.

use rand::Rng;

use super::state::{Effect, Finding, ProgramState, Scale};
use crate::records::Column::{Int, Text};
use crate::records::{Field, Outcome, Query, Record, RecordTable, Records, RecordsError, Set};
use crate::seed::{self, Stream, mix};
use crate::text::random_text;

/// Nodes in one piece of the load.
const PIECE: u64 = 100;
/// Kinds of link.
const KINDS: i64 = 2;
/// The largest number of links in a list, as in LinkBench.
const LIST_MAX: u32 = 10_000;
/// Counter of visible links, without those of the load.
const VISIBLE: usize = 0;
/// Counter of nodes, without those of the load.
const NODES: usize = 1;

pub(super) const ROW_BYTES: u64 = 600;
pub(super) const TABLES: &[&RecordTable] = &[&NODE, &LINK, &COUNT];
pub(super) const PROCEDURES: &[&str] = &[
    "get-node",
    "add-node",
    "update-node",
    "delete-node",
    "get-link",
    "get-link-list",
    "count-link",
    "add-link",
    "update-link",
    "delete-link",
];

static NODE: RecordTable = RecordTable {
    name: "node",
    columns: &[
        ("id", Int),
        ("type", Int),
        ("version", Int),
        ("time", Int),
        ("data", Text(256)),
    ],
    key: &["id"],
    indexes: &[],
    only_flat: false,
};

static LINK: RecordTable = RecordTable {
    name: "link",
    columns: &[
        ("id1", Int),
        ("link_type", Int),
        ("id2", Int),
        ("visibility", Int),
        ("data", Text(64)),
        ("version", Int),
        ("time", Int),
    ],
    key: &["id1", "link_type", "id2"],
    indexes: &[("id1_type", &["id1", "link_type", "visibility", "time"])],
    only_flat: false,
};

static COUNT: RecordTable = RecordTable {
    name: "link_count",
    columns: &[
        ("id", Int),
        ("link_type", Int),
        ("links", Int),
        ("version", Int),
        ("time", Int),
    ],
    key: &["id", "link_type"],
    indexes: &[],
    only_flat: false,
};

/// A drawn procedure of a client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Procedure {
    name: &'static str,
    id1: i64,
    kind: i64,
    id2: i64,
    /// The id of a new node.
    fresh: i64,
    node_data: String,
    link_data: String,
}

pub(super) fn pieces(scale: Scale) -> u64 {
    scale.rows.div_ceil(PIECE)
}

pub(super) fn draw(scale: Scale, name: &'static str, random: &mut Stream) -> Procedure {
    let rows = scale.rows.max(1);
    // A few nodes get most of the traffic.
    let share = random.random::<f64>().powi(3);
    let id1 = ((share * rows as f64) as u64).min(rows - 1) + 1;
    let kind = random.random_range(1..=KINDS);
    let links = link_count(id1, kind);
    let id2 = if links > 0 && random.random_range(0..4) > 0 {
        other_end(id1, kind, random.random_range(0..links))
    } else {
        random.random_range(1..=number(rows) * 8)
    };
    let writes = name.starts_with("add") || name.starts_with("update");
    let mut text = |length| {
        if writes {
            random_text(random, length, 50)
        } else {
            String::new()
        }
    };
    Procedure {
        name,
        id1: number(id1),
        kind,
        id2,
        node_data: text(128),
        link_data: text(32),
        // Larger than the ids of the load, and from a range so large that two ids are practically
        // never equal.
        fresh: random.random_range(1 << 40..=i64::MAX),
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The initial number of links of a node: half of the nodes have no links of a kind, and the more
/// links, the fewer nodes have them.
fn link_count(id: u64, kind: i64) -> i64 {
    let drawn = mix(id * 4 + kind.cast_unsigned());
    let share = 1.0 - (drawn >> 11) as f64 / (1_u64 << 53) as f64;
    ((1.0 / share.sqrt()).min(100.0) as i64 - 1) * 2
}

/// The other end of a node's link; the links of one kind all have different ends.
fn other_end(id: u64, kind: i64, link: i64) -> i64 {
    number(id) * 8 - kind * 1_000 - link * 7
}

pub(super) async fn load<R: Records>(
    state: &ProgramState,
    records: &mut R,
    piece: u64,
) -> Outcome<u64> {
    let thread = u32::try_from(piece).unwrap_or(0);
    let mut random = seed::stream(state.scale.seed, "load", "linkbench", thread);
    let (mut nodes, mut links, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for id in piece * PIECE + 1..=((piece + 1) * PIECE).min(state.scale.rows) {
        nodes.push(node(number(id), random_text(&mut random, 128, 50)));
        for kind in 1..=KINDS {
            let count = link_count(id, kind);
            for at in 0..count {
                let ends = LinkKey {
                    id1: number(id),
                    kind,
                    id2: other_end(id, kind, at),
                };
                links.push(link(ends, at, random_text(&mut random, 32, 50)));
            }
            if count > 0 {
                counts.push(count_record(number(id), kind, count));
            }
        }
    }
    let mut stored = 0;
    for (table, all) in [(&NODE, nodes), (&LINK, links), (&COUNT, counts)] {
        for chunk in all.chunks(500) {
            records.insert(table, chunk).await?;
            stored += chunk.len() as u64;
        }
    }
    Ok(stored)
}

fn node(id: i64, data: String) -> Record {
    Record(vec![
        ("id", id.into()),
        ("type", 2_048.into()),
        ("version", 0.into()),
        ("time", 0.into()),
        ("data", data.into()),
    ])
}

/// The key of a link.
struct LinkKey {
    id1: i64,
    kind: i64,
    id2: i64,
}

fn link(ends: LinkKey, time: i64, data: String) -> Record {
    Record(vec![
        ("id1", ends.id1.into()),
        ("link_type", ends.kind.into()),
        ("id2", ends.id2.into()),
        ("visibility", 1.into()),
        ("data", data.into()),
        ("version", 0.into()),
        ("time", time.into()),
    ])
}

fn count_record(id: i64, kind: i64, links: i64) -> Record {
    Record(vec![
        ("id", id.into()),
        ("link_type", kind.into()),
        ("links", links.into()),
        ("version", 0.into()),
        ("time", 0.into()),
    ])
}

fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

impl Procedure {
    fn link_key(&self) -> [(&'static str, Field); 3] {
        [
            ("id1", self.id1.into()),
            ("link_type", self.kind.into()),
            ("id2", self.id2.into()),
        ]
    }

    pub(super) async fn run<R: Records>(&self, records: &mut R) -> Outcome<Effect> {
        let node_key = [("id", Field::Int(self.id1))];
        let mut done = Effect::default();
        let mut count = |counter, by| done.counts.push((counter, by));
        match self.name {
            "add-node" => {
                let fresh = node(self.fresh, self.node_data.clone());
                records.insert(&NODE, &[fresh]).await?;
                count(NODES, 1);
            }
            "update-node" => {
                let changes = [
                    ("version", Set::Add(1)),
                    ("time", Set::To(now().into())),
                    ("data", Set::To(self.node_data.clone().into())),
                ];
                // The node may have been deleted.
                done.rows = records.update(&NODE, &node_key, &changes).await?;
            }
            "delete-node" => {
                let deleted = records.delete(&NODE, &node_key).await?;
                count(NODES, -number(deleted));
            }
            "get-link" => {
                let key = self.link_key();
                done.rows = records.find_many(Query::of(&LINK, &key)).await?.len() as u64;
            }
            "get-link-list" => {
                let key = [
                    ("id1", self.id1.into()),
                    ("link_type", self.kind.into()),
                    ("visibility", Field::Int(1)),
                ];
                let list = Query::of(&LINK, &key).order_by("time", true, LIST_MAX);
                records.scan(list, &mut |_| done.rows += 1).await?;
            }
            "count-link" => {
                let key = [("id", self.id1.into()), ("link_type", self.kind.into())];
                done.rows = records.find_many(Query::of(&COUNT, &key)).await?.len() as u64;
            }
            "add-link" => count(VISIBLE, self.add_link(records).await?),
            "update-link" => {
                let changes = [
                    ("version", Set::Add(1)),
                    ("time", Set::To(now().into())),
                    ("data", Set::To(self.link_data.clone().into())),
                ];
                // The link may never have existed.
                let key = self.link_key();
                done.rows = records.update(&LINK, &key, &changes).await?;
            }
            "delete-link" => count(VISIBLE, self.show_link(records, false).await?),
            _ => done.rows = records.find_many(Query::of(&NODE, &node_key)).await?.len() as u64,
        }
        Ok(done)
    }

    /// Adds the link, or shows it again.
    async fn add_link<R: Records>(&self, records: &mut R) -> Outcome<i64> {
        let key = self.link_key();
        let there = records
            .find_many(Query::of(&LINK, &key).for_update())
            .await?;
        if !there.is_empty() {
            return self.show_link(records, true).await;
        }
        let ends = LinkKey {
            id1: self.id1,
            kind: self.kind,
            id2: self.id2,
        };
        let added = link(ends, now(), self.link_data.clone());
        retry_duplicate(records.insert(&LINK, &[added]).await)?;
        self.add_to_count(records, 1).await
    }

    /// Shows or hides an existing link; returns the change of the count.
    async fn show_link<R: Records>(&self, records: &mut R, is_shown: bool) -> Outcome<i64> {
        let key = self.link_key();
        let there = records
            .find_many(Query::of(&LINK, &key).for_update())
            .await?;
        let wanted = i64::from(is_shown);
        if there
            .first()
            .is_none_or(|link| link.int("visibility") == wanted)
        {
            return Ok(0);
        }
        let changes = [
            ("visibility", Set::To(wanted.into())),
            ("time", Set::To(now().into())),
            ("version", Set::Add(1)),
        ];
        records.change(&LINK, &key, &changes).await?;
        self.add_to_count(records, if is_shown { 1 } else { -1 })
            .await
    }

    async fn add_to_count<R: Records>(&self, records: &mut R, by: i64) -> Outcome<i64> {
        let key = [("id", self.id1.into()), ("link_type", self.kind.into())];
        let changes = [
            ("links", Set::Add(by)),
            ("version", Set::Add(1)),
            ("time", Set::To(now().into())),
        ];
        if records.update(&COUNT, &key, &changes).await? == 0 {
            let first = count_record(self.id1, self.kind, by);
            retry_duplicate(records.insert(&COUNT, &[first]).await)?;
        }
        Ok(by)
    }
}

/// Turns a duplicate key into a new attempt: another client stored the same record after this
/// transaction had looked, and the next attempt will see it.
fn retry_duplicate(stored: Outcome<()>) -> Outcome<()> {
    const DUPLICATE: [&str; 2] = ["11000", "1062"];
    match stored {
        Err(RecordsError::Failed { kind, message })
            if kind.split(' ').any(|word| DUPLICATE.contains(&word)) =>
        {
            Err(RecordsError::Again(message))
        }
        stored => stored,
    }
}

pub(super) async fn check<R: Records>(
    state: &ProgramState,
    records: &mut R,
) -> Outcome<Vec<Finding>> {
    let initial: i64 = (1..=state.scale.rows)
        .flat_map(|id| (1..=KINDS).map(move |kind| link_count(id, kind)))
        .sum();
    let unknown = state.unknown();
    let about = |name: &str, expected: i64, found: i64| {
        Finding::in_range(name, expected - unknown..=expected + unknown, found)
    };
    let (nodes, _) = records.count_and_sum(&NODE, &[], "version").await?;
    let visible = [("visibility", Field::Int(1))];
    let (links, _) = records.count_and_sum(&LINK, &visible, "version").await?;
    let (_, counted) = records.count_and_sum(&COUNT, &[], "links").await?;
    let mut all = about(
        "nodes",
        number(state.scale.rows) + state.counter(NODES),
        nodes,
    );
    all.remark = format!(
        "{} transactions were begun again after a conflict",
        state.repeat_count()
    );
    Ok(vec![
        all,
        about("links", initial + state.counter(VISIBLE), links),
        Finding::equal("counts of links equal the links", links, counted),
    ])
}
