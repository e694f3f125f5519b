//! The connection to the cluster: requests as blocking calls, retried for some time, and counted.
//! The only module that uses futures.
//!
//! Promises: every result comes from an answer of the cluster; with files for TLS nothing is sent
//! without it. Must not know: tables, leases.

use std::ops::Range;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use storage::{Result, StorageError};
use tikv_client::transaction::HeartbeatOption;
use tikv_client::{
    Backoff, CheckLevel, Config, Error, Key, RetryOptions, Snapshot, Timestamp, TimestampExt,
    Transaction, TransactionClient, TransactionOptions,
};
use tokio::runtime::{Builder, Runtime};

use crate::error::{is_final, unreachable_error};
use crate::tls::{TlsContents, TlsFiles, attempt};

/// How long a request is retried: longer than a lease holds, including a late renewal, so that a
/// server that holds the database loses the lease before it has to fail a request.
pub(crate) const RETRY_FOR: Duration = Duration::from_secs(25);
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// How long the locks of a commit live without a sign of life.
const LOCKS_LIVE: Duration = Duration::from_millis(500);
/// Timeout of one request; a stopped store does not answer at all.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout of one small commit, which includes many retries by the client itself. A large one gets
/// a second more for each [`COMMIT_BYTES`]: given up halfway, it would leave locks on all its rows.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(8);
const COMMIT_BYTES: usize = 2 << 20;
/// Timeout of a search for locks in all regions.
const COLLECTION_TIMEOUT: Duration = Duration::from_secs(600);
/// Largest answer that is accepted; a store sends less.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Threads that drive the sockets; callers block threads of their own.
const THREADS: usize = 2;
/// How often the files for TLS are compared with those in use.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Number of low bits of a timestamp that count within one millisecond.
const LOGICAL_BITS: u32 = 18;

/// A row of the cluster.
pub(crate) type Row = (Vec<u8>, Vec<u8>);
/// A key and its new value, or `None` to delete it.
pub(crate) type Change = (Vec<u8>, Option<Vec<u8>>);

/// The timestamp that is this much older than another.
pub(crate) fn earlier_timestamp(ts: u64, age: Duration) -> u64 {
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    millis(ts).saturating_sub(age) << LOGICAL_BITS
}

/// The milliseconds of the oracle in a timestamp.
pub(crate) fn millis(ts: u64) -> u64 {
    ts >> LOGICAL_BITS
}

/// The contents of the files for TLS that the present client was made with.
struct FilesInUse {
    contents: TlsContents,
    looked: Instant,
}

/// The settings with which a client over TLS is made again.
struct TlsSettings {
    pd: Vec<String>,
    config: Config,
    files: TlsFiles,
    seen: Mutex<FilesInUse>,
}

/// A connected cluster.
pub(crate) struct Cluster {
    client: RwLock<TransactionClient>,
    tls: Option<TlsSettings>,
    runtime: Runtime,
}

impl Cluster {
    /// Connects to the first PD address that answers. `tls` names the files for TLS; without them
    /// everything is sent in the clear.
    ///
    /// # Errors
    /// [`StorageError::Unreachable`]; [`StorageError::Untrusted`] when the files cannot be used or
    /// each address refuses TLS with them.
    pub(crate) fn connect(pd: &[String], tls: Option<&TlsFiles>) -> Result<Cluster> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("quarry-tikv")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|e| StorageError::io("cannot start threads for TiKV", e))?;
        let config = Config::default()
            .with_timeout(REQUEST_TIMEOUT)
            .with_grpc_max_decoding_message_size(ANSWER_BYTES_MAX);
        let (client, tls) = match tls {
            None => (retry(&runtime, "connecting", || client(pd, &config))?, None),
            Some(files) => {
                let config = config.with_security(&files.ca, &files.certificate, &files.key);
                let contents = files.read().map_err(untrusted)?.0;
                let client = sealed_client(&runtime, pd, &config, files)?;
                if !is_same(files, &contents) {
                    let why = "the files for TLS were replaced meanwhile";
                    return Err(StorageError::Unreachable(why.to_owned()));
                }
                let looked = Instant::now();
                let sealed = TlsSettings {
                    pd: pd.to_vec(),
                    config,
                    files: files.clone(),
                    seen: Mutex::new(FilesInUse { contents, looked }),
                };
                (client, Some(sealed))
            }
        };
        Ok(Cluster {
            client: RwLock::new(client),
            tls,
            runtime,
        })
    }

    fn client(&self) -> TransactionClient {
        self.client.read().clone()
    }

    /// Connects anew when the files for TLS were replaced: the present client would show the old
    /// certificate until it expires. A client that cannot be made now is tried at the next look.
    fn take_new_files(&self) {
        let Some(tls) = &self.tls else {
            return;
        };
        // Otherwise another thread is looking.
        let Some(mut seen) = tls.seen.try_lock() else {
            return;
        };
        if seen.looked.elapsed() < LOOK_EVERY {
            return;
        }
        seen.looked = Instant::now();
        let Ok((contents, _)) = tls.files.read() else {
            return;
        };
        if contents == seen.contents {
            return;
        }
        let made = limit_time(REQUEST_TIMEOUT, client(&tls.pd, &tls.config));
        if let Ok(made) = self.runtime.block_on(made)
            && is_same(&tls.files, &contents)
        {
            *self.client.write() = made;
            seen.contents = contents;
        }
    }

    fn retry<T, F: Future<Output = tikv_client::Result<T>>>(
        &self,
        step: &'static str,
        request: impl Fn() -> F,
    ) -> Result<T> {
        self.take_new_files();
        retry(&self.runtime, step, request)
    }

    /// A timestamp later than every one given out before.
    pub(crate) fn fetch_timestamp(&self) -> Result<u64> {
        let now = || async { Ok(self.client().current_timestamp().await?.version()) };
        self.retry("asking for the time", now)
    }

    fn at(&self, ts: u64) -> Snapshot {
        self.client()
            .snapshot(Timestamp::from_version(ts), options())
    }

    /// Allows the cluster to remove versions of all databases that were overwritten before `ts`.
    /// Costs a request to each region.
    ///
    /// # Errors
    /// [`storage::StorageError::Unreachable`]
    pub(crate) fn drop_versions_before(&self, ts: u64) -> Result<()> {
        let client = self.client();
        let drop = client.gc(Timestamp::from_version(ts));
        let dropped = self.runtime.block_on(limit_time(COLLECTION_TIMEOUT, drop));
        // False means that the safe point is later already.
        dropped
            .map(|_| ())
            .map_err(|e| unreachable_error("moving the safe point", e))
    }

    /// The value of a key at a time. An empty value counts as none: no row has one, and some stores
    /// answer that way for a missing key.
    pub(crate) fn get(&self, ts: u64, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let get = || async { self.at(ts).get(key.to_vec()).await };
        let value = self.retry("a read", get)?;
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// The existing ones of the keys at a time, in any order.
    pub(crate) fn batch_get(&self, ts: u64, keys: &[Vec<u8>]) -> Result<Vec<Row>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let get = || async {
            let found = self.at(ts).batch_get(keys.to_vec()).await?;
            Ok(found.map(|pair| (pair.0.into(), pair.1)).collect())
        };
        self.retry("a read", get)
    }

    /// The first rows of a range at a time.
    pub(crate) fn scan(
        &self,
        ts: u64,
        range: &Range<Vec<u8>>,
        rows_max: usize,
        how: ScanOrder,
    ) -> Result<Vec<Row>> {
        let scan = || scan_rows(self.at(ts), range.clone(), rows_max, how);
        self.retry("a scan", scan)
    }

    /// The first rows of each range at a time. All requests are sent at once.
    pub(crate) fn scan_each(
        &self,
        ts: u64,
        ranges: &[Range<Vec<u8>>],
        rows_max: usize,
        how: ScanOrder,
    ) -> Result<Vec<Vec<Row>>> {
        let scans = || async {
            let begun: Vec<_> = ranges
                .iter()
                .map(|range| tokio::spawn(scan_rows(self.at(ts), range.clone(), rows_max, how)))
                .collect();
            let mut all = Vec::with_capacity(ranges.len());
            for scan in begun {
                let rows = scan.await;
                all.push(rows.map_err(|e| Error::StringError(e.to_string()))??);
            }
            Ok(all)
        };
        self.retry("a scan", scans)
    }

    /// Begins a transaction; the second output is its timestamp.
    ///
    /// # Errors
    /// [`storage::StorageError::Unreachable`]
    pub(crate) fn begin(&self, one_phase: bool) -> Result<(Transaction, u64)> {
        let options = || {
            if one_phase {
                options().try_one_pc()
            } else {
                options()
            }
        };
        self.begin_with(&options)
    }

    /// Begins a transaction beside other servers that write, which may wait for its locks.
    pub(crate) fn begin_beside_others(&self) -> Result<(Transaction, u64)> {
        self.begin_with(&beside_others)
    }

    fn begin_with(&self, options: &dyn Fn() -> TransactionOptions) -> Result<(Transaction, u64)> {
        let begin = || async { self.client().begin_with_options(options()).await };
        let txn = self.retry("beginning a commit", begin)?;
        let ts = txn.start_timestamp().version();
        Ok((txn, ts))
    }

    /// Begins a transaction at an earlier timestamp, which no other transaction has, without a
    /// request. `age`: how long ago the oracle gave it.
    pub(crate) fn begin_at(&self, ts: u64, age: Duration) -> Transaction {
        let ts = Timestamp::from_version(ts);
        self.client().begin_at(ts, age, beside_others())
    }

    /// The value of a key at the time of a transaction, tried once.
    #[expect(clippy::result_large_err, reason = "the client's own error")]
    pub(crate) fn get_in(
        &self,
        txn: &mut Transaction,
        key: &[u8],
    ) -> tikv_client::Result<Option<Vec<u8>>> {
        let get = limit_time(REQUEST_TIMEOUT, txn.get(key.to_vec()));
        let value = self.runtime.block_on(get)?;
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// Writes and commits without retrying. The first change is the primary key of the transaction.
    ///
    /// # Output
    /// The time of the commit.
    #[expect(clippy::result_large_err, reason = "the client's own error")]
    pub(crate) fn commit(
        &self,
        txn: &mut Transaction,
        changes: &[Change],
    ) -> tikv_client::Result<u64> {
        self.commit_checked(txn, changes, Vec::new())
    }

    /// As [`Cluster::commit`], unless one of the keys `read` has changed since the transaction
    /// began.
    #[expect(clippy::result_large_err, reason = "the client's own error")]
    pub(crate) fn commit_checked(
        &self,
        txn: &mut Transaction,
        changes: &[Change],
        read: Vec<Vec<u8>>,
    ) -> tikv_client::Result<u64> {
        let mut bytes = 0;
        for (key, value) in changes {
            bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        }
        let more = Duration::from_secs((bytes / COMMIT_BYTES) as u64);
        let commit = async {
            for (key, value) in changes {
                match value {
                    Some(value) => txn.put(key.clone(), value.clone()).await?,
                    None => txn.delete(key.clone()).await?,
                }
            }
            txn.lock_keys(read).await?;
            let ts = txn.commit().await?;
            ts.map(|ts| ts.version())
                .ok_or_else(|| Error::StringError("a commit of nothing".to_owned()))
        };
        self.runtime
            .block_on(limit_time(COMMIT_TIMEOUT + more, commit))
    }

    /// Removes the locks of a transaction whose commit was never requested.
    #[expect(clippy::result_large_err, reason = "the client's own error")]
    pub(crate) fn roll_back(&self, txn: &mut Transaction) -> tikv_client::Result<()> {
        self.runtime
            .block_on(limit_time(REQUEST_TIMEOUT, txn.rollback()))
    }
}

fn untrusted(found: String) -> StorageError {
    StorageError::Untrusted { found }
}

/// Whether the client, which reads the files itself, has read the same: it would do without TLS if
/// it had found an empty file.
fn is_same(files: &TlsFiles, contents: &TlsContents) -> bool {
    files.read().is_ok_and(|(now, _)| now == *contents)
}

async fn client(pd: &[String], config: &Config) -> tikv_client::Result<TransactionClient> {
    TransactionClient::new_with_config(pd.to_vec(), config.clone()).await
}

/// Connects over TLS. The client does not say why it cannot; so PD is asked without it, first after
/// one attempt, because nothing but other certificates helps a server that is not trusted.
fn sealed_client(
    runtime: &Runtime,
    pd: &[String],
    config: &Config,
    files: &TlsFiles,
) -> Result<TransactionClient> {
    if let Ok(client) = runtime.block_on(limit_time(REQUEST_TIMEOUT, client(pd, config))) {
        return Ok(client);
    }
    let ask = || {
        let (_, config) = files.read().map_err(untrusted)?;
        let attempts = attempt(pd, &config);
        match attempts.all_refused {
            true => Err(untrusted(attempts.failures.join("; "))),
            false => Ok(attempts.failures.join("; ")),
        }
    };
    ask()?;
    retry(runtime, "connecting", || client(pd, config)).map_err(|e| {
        let StorageError::Unreachable(told) = e else {
            return e;
        };
        match ask() {
            Err(e) => e,
            Ok(failures) if failures.is_empty() => StorageError::Unreachable(format!(
                "{told}; TLS works with the addresses of PD that are given, so the certificates \
                 may not be valid for those that PD tells"
            )),
            Ok(failures) => StorageError::Unreachable(format!("{told}; over TLS {failures}")),
        }
    })
}

/// What a scan delivers.
#[derive(Clone, Copy)]
pub(crate) struct ScanOrder {
    /// Leave values empty.
    pub(crate) keys_only: bool,
    /// The largest key first.
    pub(crate) reverse: bool,
}

impl ScanOrder {
    /// Rows, the smallest key first.
    pub(crate) const ROWS: ScanOrder = ScanOrder {
        keys_only: false,
        reverse: false,
    };
    /// Keys without values, the smallest first.
    pub(crate) const KEYS: ScanOrder = ScanOrder {
        keys_only: true,
        ..ScanOrder::ROWS
    };
}

async fn scan_rows(
    mut at: Snapshot,
    range: Range<Vec<u8>>,
    rows_max: usize,
    how: ScanOrder,
) -> tikv_client::Result<Vec<Row>> {
    let limit = u32::try_from(rows_max).unwrap_or(u32::MAX);
    let keys = |found: Vec<Key>| found.into_iter().map(|key| (key.into(), Vec::new()));
    Ok(match (how.keys_only, how.reverse) {
        (true, false) => keys(at.scan_keys(range, limit).await?.collect()).collect(),
        (true, true) => keys(at.scan_keys_reverse(range, limit).await?.collect()).collect(),
        (false, false) => rows(at.scan(range, limit).await?),
        (false, true) => rows(at.scan_reverse(range, limit).await?),
    })
}

fn rows(found: impl Iterator<Item = tikv_client::KvPair>) -> Vec<Row> {
    found.map(|pair| (pair.0.into(), pair.1)).collect()
}

fn options() -> TransactionOptions {
    // No other server waits for the locks for long, so no heartbeats are needed.
    TransactionOptions::new_optimistic()
        .drop_check(CheckLevel::None)
        .heartbeat_option(HeartbeatOption::NoHeartbeat)
        .retry_options(RetryOptions::new(
            Backoff::no_jitter_backoff(2, 500, 12),
            // About 1.5 seconds; the lock of a dead owner is removed within 50 ms of its end.
            Backoff::no_jitter_backoff(1, 50, 36),
        ))
}

/// The options of a commit whose locks others may wait for: until this process gives them up, or
/// this long after it has died.
fn beside_others() -> TransactionOptions {
    options()
        .lock_ttl(LOCKS_LIVE)
        .heartbeat_option(HeartbeatOption::FixedTime(LOCKS_LIVE / 3))
        .retry_options(RetryOptions::new(
            Backoff::no_jitter_backoff(2, 500, 12),
            // About 0.3 seconds: it holds some of its locks meanwhile, which those may need for
            // which it waits. If they commit, it conflicts anyway.
            Backoff::equal_jitter_backoff(2, 50, 12),
        ))
}

/// The answer, or an error when there is none within this time.
async fn limit_time<T>(
    time: Duration,
    answer: impl Future<Output = tikv_client::Result<T>>,
) -> tikv_client::Result<T> {
    match tokio::time::timeout(time, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            let silence = format!("no answer within {} s", time.as_secs_f32());
            Err(Error::StringError(silence))
        }
    }
}

fn retry<T, F: Future<Output = tikv_client::Result<T>>>(
    runtime: &Runtime,
    step: &'static str,
    request: impl Fn() -> F,
) -> Result<T> {
    let until = Instant::now() + RETRY_FOR;
    let mut pause = PAUSE_FIRST;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match runtime.block_on(async { limit_time(left.max(REQUEST_TIMEOUT), request()).await }) {
            Ok(answer) => return Ok(answer),
            Err(e) if is_final(&e) || Instant::now() + pause >= until => {
                return Err(unreachable_error(step, e));
            }
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
