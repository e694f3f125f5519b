//! The first statement of a transaction waits for another transaction and then runs on the state
//! after that one; later statements do not wait.

use crate::interrupts::json;
use crate::tails;
use crate::transactions::{Client, FIND, Server, WaitingClient, code, pairs};
use crate::waiting::number;
use model::{Binary, DocBuf, doc};

const INC: &str = r#"{"update": "c", "updates": [
    {"q": {"_id": 1}, "u": {"$inc": {"a": 10}}}, {"q": {"_id": 0}, "u": {"$inc": {"a": 10}}}]}"#;

fn of_session(mut command: DocBuf, session: u8, txn: i64) -> DocBuf {
    let bytes = [session; 16];
    command.put("lsid", &doc! { "id": Binary { subtype: 4, bytes: &bytes } });
    command.put("txnNumber", txn);
    command.put("autocommit", false);
    command
}

fn first(command: &str, session: u8) -> DocBuf {
    let mut command = json(command);
    command.put("startTransaction", true);
    of_session(command, session, 1)
}

fn end(name: &'static str, session: u8) -> DocBuf {
    let mut command = doc! { name: 1i32 };
    command.put("$db", "admin");
    of_session(command, session, 1)
}

fn start_holder(s: &Server, session: u8) -> Client {
    let mut holder = s.client(session);
    assert_eq!(code(&holder.begin().set(0, 100)), 0);
    holder
}

#[test]
fn a_waiting_first_statement_runs_once_on_the_committed_state() {
    for commits in [true, false] {
        let s = Server::with_documents(2);
        let mut holder = start_holder(&s, 1);
        let (mut client, inc) = (WaitingClient::new(&s), first(INC, 2));
        assert_eq!(client.run(&s, &inc, false), None);
        assert!(!client.bell.take());
        // Its changes were undone, so others may change the document meanwhile.
        let plain = r#"{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}]}"#;
        assert_eq!(code(&s.client(3).run(plain)), 0);
        let counts = |name: &str| {
            let status = s.client(4).run(r#"{"serverStatus": 1}"#);
            let of = status
                .doc()
                .field("transactions")
                .as_doc()
                .map(|d| d.to_buf());
            of.and_then(|d| number(&d, name))
        };
        assert_eq!(
            (counts("totalStarted"), counts("currentOpen")),
            (Some(2), Some(2))
        );
        let ended = if commits {
            holder.commit()
        } else {
            holder.abort()
        };
        assert_eq!(code(&ended), 0);
        assert!(client.bell.take());
        let r = client.run(&s, &inc, true).expect("a reply");
        assert_eq!((code(&r), number(&r, "nModified")), (0, Some(2)), "{r:?}");
        let r = client.run(&s, &end("commitTransaction", 2), false);
        assert_eq!(code(&r.expect("a reply")), 0);
        let zero = if commits { 110 } else { 10 };
        assert_eq!(pairs(&s.client(5).run(FIND)), vec![(0, zero), (1, 12)]);
        assert_eq!(
            (counts("totalStarted"), counts("currentOpen")),
            (Some(2), Some(0))
        );
    }
}

#[test]
fn it_is_a_conflict_when_the_time_is_over_and_where_it_must_not_run_again() {
    let s = Server::with_documents(2);
    let mut holder = start_holder(&s, 1);
    let (mut client, inc) = (WaitingClient::new(&s), first(INC, 2));
    assert_eq!(client.run(&s, &inc, false), None);
    s.advance_ms(49);
    assert_eq!(client.run(&s, &inc, true), None);
    s.advance_ms(1);
    let r = client.run(&s, &inc, true).expect("a reply");
    assert_eq!(code(&r), 112, "{r:?}");
    let r = client.run(&s, &end("commitTransaction", 2), false);
    assert_eq!(code(&r.expect("a reply")), 251, "it was aborted");
    // For a second statement it conflicts: the transaction's state was already seen.
    let find = first(r#"{"find": "c"}"#, 3);
    assert_eq!(code(&client.run(&s, &find, false).expect("a reply")), 0);
    let second = of_session(json(INC), 3, 1);
    assert_eq!(code(&client.run(&s, &second, false).expect("a reply")), 112);
    // It also conflicts when the client has specified the state.
    assert_eq!(code(&holder.commit()), 0);
    let seen = s
        .client(6)
        .run(r#"{"find": "c", "readConcern": {"level": "snapshot"}}"#);
    let cursor = seen.doc().field("cursor").as_doc().expect("a cursor");
    let concern = doc! { "level": "snapshot", "atClusterTime": cursor.field("atClusterTime") };
    let mut at = first(INC, 4);
    at.put("readConcern", &concern);
    let mut holder = start_holder(&s, 5);
    assert_eq!(code(&client.run(&s, &at, false).expect("a reply")), 112);
    assert_eq!(code(&holder.abort()), 0);
}

#[test]
fn waiters_are_woken_one_after_the_other() {
    let s = Server::with_documents(2);
    let mut holder = start_holder(&s, 1);
    let misses = r#"{"update": "c", "updates": [
        {"q": {"a": 0}, "u": {"$inc": {"a": 1}}}]}"#;
    let mut waiting: Vec<(WaitingClient, DocBuf, u8)> = [INC, misses, INC, INC]
        .into_iter()
        .zip(2u8..)
        .map(|(command, session)| {
            let (mut client, command) = (WaitingClient::new(&s), first(command, session));
            assert_eq!(client.run(&s, &command, false), None);
            (client, command, session)
        })
        .collect();
    // The client of the third one disconnects.
    waiting.remove(2);
    assert_eq!(code(&holder.commit()), 0);
    let rung =
        |w: &[(WaitingClient, DocBuf, u8)]| w.iter().map(|w| w.0.bell.take()).collect::<Vec<_>>();
    assert_eq!(rung(&waiting), [true, false, false]);
    let go_on = |(client, command, _): &mut (WaitingClient, DocBuf, u8)| {
        let r = client.run(&s, command, true).expect("a reply");
        assert_eq!(code(&r), 0, "{r:?}");
    };
    go_on(&mut waiting[0]);
    assert_eq!(
        rung(&waiting),
        [false, false, false],
        "the first one has it"
    );
    let r = waiting[0].0.run(&s, &end("abortTransaction", 2), false);
    assert_eq!(code(&r.expect("a reply")), 0);
    assert_eq!(rung(&waiting), [false, true, false]);
    go_on(&mut waiting[1]);
    // The update matches nothing now, so it holds no lock.
    assert_eq!(rung(&waiting), [false, false, true]);
    go_on(&mut waiting[2]);
}

#[test]
fn a_hot_document_has_no_conflicts_while_there_is_time() {
    let s = Server::with_documents(1);
    let (clients, times) = (6u8, 40i64);
    std::thread::scope(|scope| {
        for session in 1..=clients {
            let dispatcher = s.dispatcher();
            scope.spawn(move || {
                let mut client = tails::Client::new(dispatcher);
                let inc =
                    r#"{"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"a": 1}}}]}"#;
                for number in 1..=times {
                    let mut statement = json(inc);
                    statement.put("startTransaction", true);
                    let r = client.send(&of_session(statement, session, number));
                    assert_eq!(code(&r), 0, "{r:?}");
                    let mut commit = doc! { "commitTransaction": 1i32 };
                    commit.put("$db", "admin");
                    let r = client.send(&of_session(commit, session, number));
                    assert_eq!(code(&r), 0, "{r:?}");
                }
            });
        }
    });
    let all = i64::from(clients) * times;
    assert_eq!(pairs(&s.client(100).run(FIND)), vec![(0, all)]);
}

#[test]
fn an_abort_ends_the_wait_for_good() {
    let s = Server::with_documents(2);
    let mut holder = start_holder(&s, 1);
    let (mut client, inc) = (WaitingClient::new(&s), first(INC, 2));
    assert_eq!(client.run(&s, &inc, false), None);
    // From another connection, as a driver does when it has given up the first one.
    let r = WaitingClient::new(&s).run(&s, &end("abortTransaction", 2), false);
    assert_eq!(code(&r.expect("a reply")), 0);
    assert_eq!(code(&holder.commit()), 0);
    let r = client.run(&s, &inc, true).expect("a reply");
    assert_ne!(code(&r), 0, "it must not begin again: {r:?}");
    assert_eq!(pairs(&s.client(3).run(FIND)), vec![(0, 100), (1, 1)]);
}
