//! Tests of the changes that CHANGES.md lists, without a cluster: the stores are functions.

use std::any::Any;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::mock::MockKvClient;
use crate::mock::MockPdClient;
use crate::proto::errorpb;
use crate::proto::kvrpcpb;
use crate::proto::pdpb::Timestamp;
use crate::request::Keyspace;
use crate::timestamp::TimestampExt;
use crate::transaction::lock::LockResolver;
use crate::transaction::lock::ResolveLocksContext;
use crate::transaction::HeartbeatOption;
use crate::Transaction;
use crate::TransactionOptions;

/// The requests that arrived.
#[derive(Default)]
struct Seen {
    prewrites: Vec<kvrpcpb::PrewriteRequest>,
    commits: Vec<kvrpcpb::CommitRequest>,
}

type Answers = (
    fn(&kvrpcpb::PrewriteRequest) -> kvrpcpb::PrewriteResponse,
    fn(&kvrpcpb::CommitRequest) -> kvrpcpb::CommitResponse,
);

const PLAIN: Answers = (|_| Default::default(), |_| Default::default());

/// Commits a transaction that writes these keys, the first of which is the primary key, and waits
/// for what the client does in the background. The output is the version of the commit.
async fn commit(
    keys: &[u8],
    options: TransactionOptions,
    (prewrite, commit): Answers,
) -> (u64, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let record = seen.clone();
    let client = MockKvClient::with_dispatch_hook(move |request: &dyn Any| {
        let mut seen = record.lock().unwrap();
        if let Some(request) = request.downcast_ref::<kvrpcpb::PrewriteRequest>() {
            seen.prewrites.push(request.clone());
            return Ok(Box::new(prewrite(request)) as Box<dyn Any>);
        }
        let request = request.downcast_ref::<kvrpcpb::CommitRequest>();
        let request = request.expect("a commit");
        seen.commits.push(request.clone());
        Ok(Box::new(commit(request)) as Box<dyn Any>)
    });
    let began = Timestamp {
        physical: 1000,
        ..Default::default()
    };
    let mut txn = Transaction::new(
        began,
        Arc::new(MockPdClient::new(client)),
        options.heartbeat_option(HeartbeatOption::NoHeartbeat),
        Keyspace::Disable,
    );
    for key in keys {
        txn.put(vec![*key], "value").await.unwrap();
    }
    let at = txn.commit().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    (at.version(), seen)
}

fn optimistic() -> TransactionOptions {
    TransactionOptions::new_optimistic()
}

#[tokio::test]
async fn keys_of_one_region_are_committed_in_one_request() {
    let (_, seen) = commit(&[1, 2, 3], optimistic(), PLAIN).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.commits.len(), 1);
    assert_eq!(seen.commits[0].keys[0], [1]);
    assert_eq!(seen.commits[0].keys.len(), 3);
}

#[tokio::test]
async fn keys_of_other_regions_are_committed_after_the_primary_key() {
    let (_, seen) = commit(&[1, 20, 2, 30], optimistic(), PLAIN).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.prewrites.len(), 2);
    let mut commits: Vec<_> = seen.commits.iter().map(|c| c.keys.clone()).collect();
    commits.iter_mut().for_each(|keys| keys.sort());
    // The primary key may be committed again.
    assert_eq!(commits[0], [[1], [2]]);
    assert!(commits[1..].contains(&vec![vec![20], vec![30]]));
}

#[tokio::test]
async fn the_primary_key_is_committed_alone_when_the_region_has_changed() {
    let together_is_refused = |request: &kvrpcpb::CommitRequest| kvrpcpb::CommitResponse {
        region_error: (request.keys.len() > 1 && request.keys.contains(&vec![1])).then(|| {
            errorpb::Error {
                server_is_busy: Some(Default::default()),
                ..Default::default()
            }
        }),
        ..Default::default()
    };
    let answers: Answers = (PLAIN.0, together_is_refused);
    let (_, seen) = commit(&[1, 2, 3], optimistic(), answers).await;
    let seen = seen.lock().unwrap();
    let commits: Vec<_> = seen.commits.iter().map(|c| c.keys.len()).collect();
    assert_eq!(commits, [3, 1, 2]);
    assert_eq!(seen.commits[1].keys, [[1]]);
    let versions: Vec<_> = seen.commits.iter().map(|c| c.commit_version).collect();
    assert!(versions.iter().all(|v| *v == versions[0]));
}

#[tokio::test]
async fn only_an_asynchronous_commit_sends_the_list_of_all_keys() {
    let (_, seen) = commit(&[1, 2, 20], optimistic(), PLAIN).await;
    for request in &seen.lock().unwrap().prewrites {
        assert!(request.secondaries.is_empty() && request.max_commit_ts == 0);
    }
    let time = |_: &kvrpcpb::PrewriteRequest| kvrpcpb::PrewriteResponse {
        min_commit_ts: 77,
        ..Default::default()
    };
    let (at, seen) = commit(&[1, 2, 20], optimistic().use_async_commit(), (time, PLAIN.1)).await;
    assert_eq!(at, 77);
    let latest = 1000 + 2000 + 1000;
    for request in &seen.lock().unwrap().prewrites {
        assert_eq!(request.secondaries.len(), 2);
        let ms = Timestamp::from_version(request.max_commit_ts).physical;
        assert!((3000..latest).contains(&ms), "{ms}");
    }
}

#[tokio::test]
async fn an_asynchronous_commit_that_one_region_refuses_takes_two_phases() {
    let one_refuses = |request: &kvrpcpb::PrewriteRequest| kvrpcpb::PrewriteResponse {
        min_commit_ts: if request.mutations[0].key == [20] { 0 } else { 77 },
        ..Default::default()
    };
    let answers: Answers = (one_refuses, PLAIN.1);
    let (at, seen) = commit(&[1, 20], optimistic().use_async_commit(), answers).await;
    // The oracle of these tests gives 0.
    assert_eq!(at, 0);
    let seen = seen.lock().unwrap();
    assert!(seen.commits.iter().all(|c| c.commit_version == 0));
    assert_eq!(seen.commits[0].keys, [[1]]);
    assert_eq!(seen.commits[1].keys, [[20]]);
}

#[tokio::test]
async fn a_commit_in_one_phase_that_is_refused_takes_two() {
    let (_, seen) = commit(&[1, 2], optimistic().try_one_pc(), PLAIN).await;
    let seen = seen.lock().unwrap();
    assert!(seen.prewrites[0].try_one_pc && seen.prewrites[0].max_commit_ts > 0);
    assert_eq!(seen.commits.len(), 1);
    let one_phase = |_: &kvrpcpb::PrewriteRequest| kvrpcpb::PrewriteResponse {
        one_pc_commit_ts: 55,
        ..Default::default()
    };
    let answers: Answers = (one_phase, PLAIN.1);
    let (at, seen) = commit(&[1, 2], optimistic().try_one_pc(), answers).await;
    assert_eq!((at, seen.lock().unwrap().commits.len()), (55, 0));
}

#[tokio::test]
async fn the_locks_of_a_transaction_that_began_earlier_live_longer() {
    let ttl = Arc::new(Mutex::new(Vec::new()));
    let record = ttl.clone();
    let client = MockKvClient::with_dispatch_hook(move |request: &dyn Any| {
        if let Some(request) = request.downcast_ref::<kvrpcpb::PrewriteRequest>() {
            record.lock().unwrap().push(request.lock_ttl);
            return Ok(Box::<kvrpcpb::PrewriteResponse>::default() as Box<dyn Any>);
        }
        Ok(Box::<kvrpcpb::CommitResponse>::default() as Box<dyn Any>)
    });
    for age in [0, 700] {
        let mut txn = Transaction::new(
            Timestamp::default(),
            Arc::new(MockPdClient::new(client.clone())),
            optimistic().heartbeat_option(HeartbeatOption::NoHeartbeat),
            Keyspace::Disable,
        )
        .begun_before(Duration::from_millis(age));
        txn.put(vec![1], "value").await.unwrap();
        txn.commit().await.unwrap();
    }
    let ttl = ttl.lock().unwrap();
    assert!((650..=800).contains(&(ttl[1] - ttl[0])), "{ttl:?}");
}

#[tokio::test]
async fn a_lock_whose_primary_key_was_never_locked_is_found_out() {
    let client = MockKvClient::with_dispatch_hook(|request: &dyn Any| {
        let request = request.downcast_ref::<kvrpcpb::CheckTxnStatusRequest>();
        let request = request.expect("a question for the primary key");
        let missing = kvrpcpb::TxnNotFound {
            start_ts: request.lock_ts,
            primary_key: request.primary_key.clone(),
        };
        let mut response = kvrpcpb::CheckTxnStatusResponse::default();
        if !request.rollback_if_not_exist {
            response.error = Some(kvrpcpb::KeyError {
                txn_not_found: Some(missing),
                ..Default::default()
            });
        }
        Ok(Box::new(response) as Box<dyn Any>)
    });
    let mut resolver = LockResolver::new(ResolveLocksContext::default());
    let status = resolver
        .check_txn_status(
            Arc::new(MockPdClient::new(client)),
            Keyspace::Disable,
            7,
            vec![1],
            9,
            9,
            false,
            true,
            false,
            false,
        )
        .await;
    assert!(matches!(status, Err(crate::Error::TxnNotFound(_))), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_live_as_long_as_the_caller_has_set() {
    let ttl = Arc::new(Mutex::new(Vec::new()));
    let record = ttl.clone();
    let client = MockKvClient::with_dispatch_hook(move |request: &dyn Any| {
        if let Some(request) = request.downcast_ref::<kvrpcpb::PrewriteRequest>() {
            record.lock().unwrap().push(request.lock_ttl);
            std::thread::sleep(Duration::from_millis(400));
            return Ok(Box::<kvrpcpb::PrewriteResponse>::default() as Box<dyn Any>);
        }
        if let Some(request) = request.downcast_ref::<kvrpcpb::TxnHeartBeatRequest>() {
            record.lock().unwrap().push(request.advise_lock_ttl);
            return Ok(Box::<kvrpcpb::TxnHeartBeatResponse>::default() as Box<dyn Any>);
        }
        Ok(Box::<kvrpcpb::CommitResponse>::default() as Box<dyn Any>)
    });
    let every = Duration::from_millis(100);
    let mut txn = Transaction::new(
        Timestamp::default(),
        Arc::new(MockPdClient::new(client.clone())),
        optimistic()
            .heartbeat_option(HeartbeatOption::FixedTime(every))
            .lock_ttl(Duration::from_millis(300)),
        Keyspace::Disable,
    );
    // So large that the client would take three seconds.
    txn.put(vec![1], vec![b'v'; 100_000]).await.unwrap();
    txn.commit().await.unwrap();
    let ttl = ttl.lock().unwrap();
    assert!((300..400).contains(&ttl[0]), "{ttl:?}");
    // The first heartbeat counts from the beginning of the transaction.
    assert!(ttl.len() > 1 && (400..1000).contains(&ttl[1]), "{ttl:?}");
}

#[tokio::test]
async fn a_commit_gives_up_when_the_oracle_is_silent() {
    let rolled_back = Arc::new(Mutex::new(Vec::new()));
    let record = rolled_back.clone();
    let client = MockKvClient::with_dispatch_hook(move |request: &dyn Any| {
        if request.is::<kvrpcpb::PrewriteRequest>() {
            return Ok(Box::<kvrpcpb::PrewriteResponse>::default() as Box<dyn Any>);
        }
        let request = request.downcast_ref::<kvrpcpb::BatchRollbackRequest>();
        let request = request.expect("no commit is requested");
        record.lock().unwrap().extend(request.keys.clone());
        Ok(Box::<kvrpcpb::BatchRollbackResponse>::default() as Box<dyn Any>)
    });
    let mut silent = MockPdClient::new(client);
    silent.is_silent = true;
    let mut txn = Transaction::new(
        Timestamp::default(),
        Arc::new(silent),
        optimistic()
            .heartbeat_option(HeartbeatOption::NoHeartbeat)
            .lock_ttl(Duration::from_millis(200)),
        Keyspace::Disable,
    );
    txn.put(vec![1], "value").await.unwrap();
    let done = tokio::time::timeout(Duration::from_secs(5), txn.commit());
    let done = done.await.expect("it gives up");
    assert!(matches!(done, Err(crate::Error::NoCommitTimestamp(200))), "{done:?}");
    txn.rollback().await.unwrap();
    assert_eq!(*rolled_back.lock().unwrap(), [[1]]);
}

/// How long a reader waits for a lock of the transaction with this start timestamp, which lives for
/// 0.3 seconds by a time that stands still. `seen`: when its process has seen a later timestamp. The
/// oracle of these tests always gives the same time.
async fn read_locked(lock_version: u64, seen: Option<Instant>) -> Duration {
    let lock = kvrpcpb::LockInfo {
        primary_lock: vec![1],
        key: vec![1],
        lock_version,
        lock_ttl: 300,
        ..Default::default()
    };
    let is_resolved = Arc::new(Mutex::new(false));
    let client = MockKvClient::with_dispatch_hook(move |request: &dyn Any| {
        let mut is_resolved = is_resolved.lock().unwrap();
        if let Some(request) = request.downcast_ref::<kvrpcpb::CheckTxnStatusRequest>() {
            let mut status = kvrpcpb::CheckTxnStatusResponse::default();
            if request.current_ts != u64::MAX {
                status.lock_ttl = lock.lock_ttl;
                status.lock_info = Some(lock.clone());
            }
            return Ok(Box::new(status) as Box<dyn Any>);
        }
        if let Some(request) = request.downcast_ref::<kvrpcpb::ResolveLockRequest>() {
            assert_eq!((request.start_version, request.commit_version), (lock_version, 0));
            *is_resolved = true;
            return Ok(Box::<kvrpcpb::ResolveLockResponse>::default() as Box<dyn Any>);
        }
        assert!(request.is::<kvrpcpb::GetRequest>());
        let mut found = kvrpcpb::GetResponse::default();
        if *is_resolved {
            found.value = vec![5];
        } else {
            found.error = Some(kvrpcpb::KeyError {
                locked: Some(lock.clone()),
                ..Default::default()
            });
        }
        Ok(Box::new(found) as Box<dyn Any>)
    });
    let mut oracle = MockPdClient::new(client);
    oracle.seen = seen;
    let mut txn = Transaction::new(
        Timestamp::from_version(9),
        Arc::new(oracle),
        optimistic().read_only(),
        Keyspace::Disable,
    );
    let begun = Instant::now();
    assert_eq!(txn.get(vec![1]).await.unwrap(), Some(vec![5]));
    begun.elapsed()
}

#[tokio::test]
async fn a_lock_expires_while_the_time_of_the_oracle_stands_still() {
    assert!(read_locked(7, None).await >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_lock_is_as_old_as_a_later_timestamp_that_was_seen() {
    let seen = Instant::now() - Duration::from_millis(400);
    assert!(read_locked(8, Some(seen)).await < Duration::from_millis(200));
    let seen = Instant::now() - Duration::from_millis(150);
    let waited = read_locked(6, Some(seen)).await;
    assert!(waited >= Duration::from_millis(150), "{waited:?}");
}

#[tokio::test]
async fn a_commit_yields_to_a_transaction_that_began_before_it() {
    const OWN: u64 = 100;
    for (other, requests) in [(OWN - 1, 1), (OWN + 1, 4)] {
        let lock = kvrpcpb::LockInfo {
            primary_lock: vec![9],
            key: vec![1],
            lock_version: other,
            lock_ttl: 10_000,
            ..Default::default()
        };
        let count = Arc::new(Mutex::new(0));
        let record = count.clone();
        let client = MockKvClient::with_dispatch_hook(move |request: &dyn Any| {
            if request.is::<kvrpcpb::CheckTxnStatusRequest>() {
                let status = kvrpcpb::CheckTxnStatusResponse {
                    lock_ttl: lock.lock_ttl,
                    lock_info: Some(lock.clone()),
                    ..Default::default()
                };
                return Ok(Box::new(status) as Box<dyn Any>);
            }
            if request.is::<kvrpcpb::CommitRequest>() {
                return Ok(Box::<kvrpcpb::CommitResponse>::default() as Box<dyn Any>);
            }
            assert!(request.is::<kvrpcpb::PrewriteRequest>());
            let mut count = record.lock().unwrap();
            *count += 1;
            let mut response = kvrpcpb::PrewriteResponse::default();
            if *count < 4 {
                response.errors.push(kvrpcpb::KeyError {
                    locked: Some(lock.clone()),
                    ..Default::default()
                });
            }
            Ok(Box::new(response) as Box<dyn Any>)
        });
        let mut txn = Transaction::new(
            Timestamp::from_version(OWN),
            Arc::new(MockPdClient::new(client)),
            optimistic()
                .heartbeat_option(HeartbeatOption::NoHeartbeat)
                .lock_ttl(Duration::from_millis(500)),
            Keyspace::Disable,
        );
        txn.put(vec![1], "value").await.unwrap();
        let done = txn.commit().await;
        let gave_up = matches!(done, Err(crate::Error::ResolveLockError(_)));
        assert_eq!(gave_up, other < OWN, "{done:?}");
        assert!(gave_up || done.is_ok(), "{done:?}");
        assert_eq!(*count.lock().unwrap(), requests);
    }
}
