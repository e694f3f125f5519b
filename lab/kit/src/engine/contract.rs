//! The contract of an engine, as one check that each driver's tests call.

use std::path::Path;
use std::time::Duration;

use super::interface::{EngineSession, KeyChange, LabEngine};
use super::options::{EngineError, EngineOptions};
use crate::workload::Capability;

/// How a driver opens its engine.
pub type OpenFn<'a> = &'a dyn Fn(EngineOptions) -> Result<Box<dyn LabEngine>, EngineError>;

/// Panics if the engine below `directory` breaks a promise. For tests.
pub fn check(directory: &Path, open: OpenFn<'_>) {
    check_with(directory, "", open);
}

/// The same check with parameters of the engine, such as `style=universal`.
pub fn check_with(directory: &Path, parameters: &str, open: OpenFn<'_>) {
    let address = |more: &str| format!("{}?cache=8M{more}", directory.display());
    let given = if parameters.is_empty() {
        String::new()
    } else {
        format!("&{parameters}")
    };
    let options = |more: &str| EngineOptions::parse(&address(more)).expect("an address");
    assert!(
        open(options("&bogus=1")).is_err(),
        "an unknown parameter is refused"
    );
    {
        let engine = open(options(&given)).expect("it opens");
        let mut session = engine.session().expect("a session");
        let rows: Vec<KeyChange> = (0..500_u32)
            .map(|n| KeyChange::Put(key(n), vec![n as u8; 100]))
            .collect();
        session.write(&rows, false).expect("a batch");
        reads(session.as_mut());
        scans(session.as_mut());
        changes(engine.as_ref(), session.as_mut());
        let rest = engine.settle(Duration::from_secs(30));
        assert!(rest.is_idle, "{}", rest.remark);
        assert!(!engine.name().is_empty() && !engine.statistics().is_null());
        concurrent_writers(engine.as_ref());
    }
    let engine = open(options(&given)).expect("it opens again");
    let mut session = engine.session().expect("a session");
    let mut value = Vec::new();
    assert!(
        session.get(&key(3), &mut value).expect("a read") && value == vec![3; 100],
        "what was stored is still there"
    );
    assert!(
        !session.get(&key(7), &mut value).expect("a read"),
        "what was deleted is still gone"
    );
}

fn key(number: u32) -> Vec<u8> {
    [&[9], number.to_be_bytes().as_slice()].concat()
}

fn reads(session: &mut dyn EngineSession) {
    let mut value = vec![1, 2, 3];
    assert!(session.get(&key(257), &mut value).expect("a read"));
    assert_eq!(value, vec![1; 100]);
    assert!(!session.get(b"absent", &mut value).expect("a read"));
    assert!(!session.get(&key(500), &mut value).expect("a read"));
}

fn collect(
    session: &mut dyn EngineSession,
    from: u32,
    end: u32,
    reverse: bool,
    limit: usize,
) -> Vec<u32> {
    let mut out = Vec::new();
    let mut visit = |found: &[u8], value: &[u8]| {
        let number = u32::from_be_bytes(found[1..].try_into().expect("a key of ours"));
        assert_eq!(value, vec![number as u8; 100], "key {number}");
        out.push(number);
        out.len() < limit
    };
    session
        .scan(&key(from), &key(end), reverse, &mut visit)
        .expect("a scan");
    out
}

fn scans(session: &mut dyn EngineSession) {
    assert_eq!(collect(session, 10, 15, false, 99), [10, 11, 12, 13, 14]);
    assert_eq!(collect(session, 10, 15, true, 99), [14, 13, 12, 11, 10]);
    assert_eq!(collect(session, 10, 15, false, 2), [10, 11]);
    assert_eq!(collect(session, 10, 15, true, 2), [14, 13]);
    assert_eq!(collect(session, 498, 600, false, 99), [498, 499]);
    assert_eq!(collect(session, 498, 600, true, 99), [499, 498]);
    assert!(collect(session, 500, 600, false, 99).is_empty());
    assert!(collect(session, 500, 600, true, 99).is_empty());
    assert_eq!(collect(session, 0, 500, false, usize::MAX).len(), 500);
    // The empty key is the smallest, so it stands for the beginning.
    for reverse in [false, true] {
        let mut seen = 0;
        let mut visit = |_: &[u8], _: &[u8]| {
            seen += 1;
            true
        };
        session
            .scan(&[], &key(500), reverse, &mut visit)
            .expect("a scan from the beginning");
        assert_eq!(seen, 500, "from the beginning, reverse: {reverse}");
    }
}

fn changes(engine: &dyn LabEngine, session: &mut dyn EngineSession) {
    let batch = [
        KeyChange::Delete(key(7)),
        KeyChange::Put(key(600), vec![88; 100]),
        KeyChange::Delete(b"absent".to_vec()),
    ];
    session.write(&batch, true).expect("a synced batch");
    assert_eq!(collect(session, 6, 9, false, 99), [6, 8]);
    let (counter, mut value) = (key(700), Vec::new());
    session
        .write(
            &[KeyChange::Put(
                counter.clone(),
                [40_i64.to_le_bytes().as_slice(), &[1, 2]].concat(),
            )],
            false,
        )
        .expect("a put");
    let added: Result<(), EngineError> = [1, 1]
        .iter()
        .try_for_each(|one| session.write(&[KeyChange::Merge(counter.clone(), *one)], false));
    assert_eq!(
        added.is_err(),
        engine.unsupported().contains(&Capability::Merge),
        "merge: {added:?}"
    );
    if added.is_ok() {
        assert!(session.get(&counter, &mut value).expect("a read"));
        assert_eq!(value, [42_i64.to_le_bytes().as_slice(), &[1, 2]].concat());
    }
}

fn concurrent_writers(engine: &dyn LabEngine) {
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let mut session = engine.session().expect("a session");
            scope.spawn(move || {
                for n in 0..50 {
                    let number = 10_000 + thread * 50 + n;
                    session
                        .write(
                            &[KeyChange::Put(key(number), vec![number as u8; 100])],
                            false,
                        )
                        .expect("a write");
                }
            });
        }
    });
    let mut session = engine.session().expect("a session");
    assert_eq!(
        collect(session.as_mut(), 10_000, 10_200, false, usize::MAX).len(),
        200
    );
}
