//! What one client does in one call: the parts that workload files name.

use lab_kit::documents::{Purchase, SysbenchRow};
use lab_kit::seed::Stream;
use lab_kit::workload::{DocumentKind, Part};
use mongodb::Collection;
use mongodb::bson::{DateTime, RawDocumentBuf, cstr, doc};
use mongodb::error::{Error, ErrorKind};
use rand::Rng;

use crate::target::one_line;

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// So many operations were acknowledged.
    Done(u64),
    /// The target answered with an error; some operations of the call may have been acknowledged before it.
    Failed {
        /// Acknowledged nevertheless.
        done: u64,
        /// Short and bounded in variety: it becomes a key of the result.
        kind: String,
        /// In full.
        message: String,
    },
    /// No answer: nobody knows what became of so many operations.
    Lost {
        /// Operations under way.
        unknown: u64,
        /// Why.
        message: String,
    },
}

/// The work of one client.
#[derive(Debug)]
pub(crate) struct Work {
    part: Part,
    documents: DocumentKind,
    collection: Collection<RawDocumentBuf>,
    random: Stream,
    rows: u64,
    batch: u64,
    next_id: u64,
    end_id: u64,
    /// Sum of field `k` over documents acknowledged, for the check of updates.
    pub(crate) sum_of_k: i64,
}

impl Work {
    /// Client number `client` of `clients`: an insert takes its share of `rows`, other parts draw from all of them.
    pub(crate) fn new(
        (part, documents): (Part, DocumentKind),
        collection: Collection<RawDocumentBuf>,
        random: Stream,
        (rows, batch): (u64, u32),
        (client, clients): (u32, u32),
    ) -> Self {
        let share = |number: u32| {
            (u128::from(rows) * u128::from(number) / u128::from(clients.max(1))) as u64
        };
        let (next_id, end_id) = (share(client), share(client + 1));
        Self {
            part,
            documents,
            collection,
            random,
            rows,
            batch: u64::from(batch),
            next_id,
            end_id,
            sum_of_k: 0,
        }
    }

    /// Prepares the next call, so that making up documents is not part of its latency. None when the client's share is done.
    pub(crate) fn prepare(&mut self) -> Option<Call> {
        match self.part {
            Part::Insert => self.prepare_batch(),
            Part::Point => Some(Call::Find(self.draw_id())),
            Part::UpdateInc => Some(Call::Increment(self.draw_id())),
            Part::Hot => Some(Call::Increment(1)),
        }
    }

    fn draw_id(&mut self) -> i64 {
        i64::try_from(self.random.random_range(1..=self.rows.max(1))).unwrap_or(i64::MAX)
    }

    fn prepare_batch(&mut self) -> Option<Call> {
        let size = self.batch.min(self.end_id - self.next_id);
        if size == 0 {
            return None;
        }
        let mut documents = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let mut ks = Vec::new();
        let now = DateTime::now();
        for _ in 0..size {
            self.next_id += 1;
            let mut document = RawDocumentBuf::new();
            match self.documents {
                DocumentKind::Purchase => {
                    let row = Purchase::draw(&mut self.random);
                    document.append(cstr!("dateandtime"), now);
                    document.append(cstr!("cashregisterid"), row.cashregisterid);
                    document.append(cstr!("customerid"), row.customerid);
                    document.append(cstr!("product"), row.product);
                    document.append(cstr!("price"), row.price);
                    document.append(cstr!("data"), row.data);
                }
                DocumentKind::Sysbench => {
                    let row = SysbenchRow::draw(&mut self.random, self.rows);
                    ks.push(row.k);
                    document.append(
                        cstr!("_id"),
                        i64::try_from(self.next_id).unwrap_or(i64::MAX),
                    );
                    document.append(cstr!("k"), row.k);
                    document.append(cstr!("c"), row.c);
                    document.append(cstr!("pad"), row.pad);
                }
            }
            documents.push(document);
        }
        Some(Call::Insert { documents, ks })
    }

    /// Makes the call.
    pub(crate) async fn call(&mut self, call: Call) -> Outcome {
        let done = match call {
            Call::Insert { documents, ks } => return self.insert(documents, &ks).await,
            Call::Find(id) => match self.collection.find_one(doc! { "_id": id }).await {
                Ok(Some(found)) if found.get_i64("_id").is_ok_and(|found| found == id) => Ok(()),
                Ok(Some(found)) => {
                    return failed(
                        "wrong document",
                        format!("asked for _id {id}, got {found:?}"),
                    );
                }
                Ok(None) => {
                    return failed("document not found", format!("no document with _id {id}"));
                }
                Err(error) => Err(error),
            },
            Call::Increment(id) => match self
                .collection
                .update_one(doc! { "_id": id }, doc! { "$inc": { "k": 1 } })
                .await
            {
                Ok(reply) if (reply.matched_count, reply.modified_count) == (1, 1) => Ok(()),
                Ok(reply) => {
                    return failed(
                        "wrong update count",
                        format!("_id {id}: {reply:?}, expected one matched and modified"),
                    );
                }
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(()) => Outcome::Done(1),
            Err(error) => judge(&error, 1),
        }
    }

    async fn insert(&mut self, documents: Vec<RawDocumentBuf>, ks: &[i32]) -> Outcome {
        let size = documents.len() as u64;
        let outcome = match self.collection.insert_many(documents).await {
            Ok(_) => Outcome::Done(size),
            Err(error) => judge(&error, size),
        };
        let stored = match &outcome {
            Outcome::Done(done) | Outcome::Failed { done, .. } => {
                usize::try_from(*done).unwrap_or(usize::MAX)
            }
            Outcome::Lost { .. } => 0,
        };
        self.sum_of_k += ks.iter().take(stored).map(|k| i64::from(*k)).sum::<i64>();
        outcome
    }
}

/// A call, ready to be sent.
#[derive(Debug)]
pub(crate) enum Call {
    /// Insert these.
    Insert {
        /// The batch.
        documents: Vec<RawDocumentBuf>,
        /// Field `k` of each, where there is one.
        ks: Vec<i32>,
    },
    /// Find this `_id`.
    Find(i64),
    /// Add one to `k` of this `_id`.
    Increment(i64),
}

impl Call {
    /// Operations in it.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Insert { documents, .. } => documents.len() as u64,
            Self::Find(_) | Self::Increment(_) => 1,
        }
    }
}

fn failed(kind: &str, message: String) -> Outcome {
    Outcome::Failed {
        done: 0,
        kind: kind.to_owned(),
        message,
    }
}

/// Tells an answer that is an error from no answer at all.
fn judge(error: &Error, size: u64) -> Outcome {
    let message = one_line(error);
    match error.kind.as_ref() {
        ErrorKind::Command(inner) => Outcome::Failed {
            done: 0,
            kind: format!("{} {}", inner.code, inner.code_name),
            message,
        },
        ErrorKind::Write(_) => Outcome::Failed {
            done: 0,
            kind: "write error".to_owned(),
            message,
        },
        ErrorKind::InsertMany(inner) => {
            let first = inner
                .write_errors
                .as_ref()
                .and_then(|errors| errors.first());
            // The batch is ordered: what stands before the first error is stored, what follows is not.
            let done = first.map_or(size, |error| error.index as u64);
            let kind = first.map_or_else(
                || "write concern error".to_owned(),
                |error| format!("write error {}", error.code),
            );
            let message = first.map_or(message, |error| error.message.clone());
            Outcome::Failed {
                done,
                kind,
                message,
            }
        }
        _ => Outcome::Lost {
            unknown: size,
            message,
        },
    }
}
