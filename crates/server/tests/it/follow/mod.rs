//! `quarry follow` with the real binary, between two servers: copies during writes and renames,
//! kills of every process, the cut-over.

mod back;
mod compared;
mod load;
mod series;
mod world;

use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};

use load::{Writer, fill};
use world::{
    Follower, Node, assert_same, command_error, end, run, run_quarry, runtime, status, wait_for,
};

#[test]
fn a_source_is_moved_under_writes_and_kills() {
    runtime().block_on(async {
        let (mut source, mut target) = (Node::start(&[]), Node::start(&[]));
        let client = source.client().await;
        fill(&client, 20_000).await;
        let writer = Writer::start(&source).await;
        let (from, to) = (source.uri(), target.uri());
        let mut follower = Follower::start(&[&from, "--to", &to, "--rate", "2M"]);
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(700)).await;
            follower.kill();
        }
        source.kill();
        wait_for(&target, "following");
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(900)).await;
            follower.kill();
        }
        target.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        source.kill();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let rounds = writer.end().await;
        assert!(rounds > 20, "{rounds} rounds");
        let report = run_quarry(&["cutover", "--to", &to, "--source-is-quiet"]);
        assert!(report.contains("cut over:"), "{report}");
        assert_eq!(follower.status(), Some(0));
        assert_same(&client, &target.client().await, "shop").await;
        // A repeated request returns the same report.
        let again = run_quarry(&["cutover", "--to", &to, "--source-is-quiet"]);
        assert_eq!(again.lines().last(), report.lines().last());
        assert_eq!(status(&target).get_str("phase").unwrap(), "done");
    });
}

#[test]
fn a_source_without_streams_is_moved_by_its_log() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let client = source.client().await;
        fill(&client, 3000).await;
        let create = doc! { "createUser": "ada", "pwd": "s3cret", "roles": ["mover"] };
        let role = doc! { "createRole": "mover", "privileges": [], "roles": ["readWrite"] };
        run(&client.database("shop"), role).await;
        run(&client.database("shop"), create).await;
        let writer = Writer::start(&source).await;
        let (from, to) = (source.uri(), target.uri());
        let mut follower = Follower::start(&[&from, "--to", &to, "--by-oplog", "--users"]);
        wait_for(&target, "following");
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            follower.kill();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Several documents and a collection in one log entry.
        transact(&client).await;
        writer.end().await;
        run_quarry(&["cutover", "--to", &to, "--source-is-quiet"]);
        assert_eq!(follower.status(), Some(0));
        let there = target.client().await;
        assert_same(&client, &there, "shop").await;
        let info = doc! { "usersInfo": "ada", "showCredentials": true };
        let mine = run(&client.database("shop"), info.clone()).await;
        let other = run(&there.database("shop"), info).await;
        assert_eq!(mine.get("users"), other.get("users"));
        assert!(!mine.get_array("users").unwrap().is_empty());
    });
}

async fn transact(client: &Client) {
    let orders = client.database("shop").collection::<Document>("orders");
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    for n in 0..5 {
        let id = doc! { "_id": 2000 + n };
        orders.delete_one(id).session(&mut session).await.unwrap();
        let new = doc! { "_id": format!("transacted {n}"), "u": format!("t{n}") };
        orders.insert_one(new).session(&mut session).await.unwrap();
    }
    session.commit_transaction().await.unwrap();
}

#[test]
fn namespaces_are_chosen_and_renamed() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let client = source.client().await;
        for ns in ["a.x", "a.y", "a.tmp1", "b.x", "c.x"] {
            let (db, coll) = ns.split_once('.').unwrap();
            let coll = client.database(db).collection(coll);
            coll.insert_one(doc! { "_id": ns }).await.unwrap();
        }
        let (from, to) = (source.uri(), target.uri());
        let chosen = ["--include", "a", "--include", "b.*", "--exclude", "a.tmp*"];
        let renamed = ["--rename", "a.x=d.z", "--rename", "b=e"];
        let base = [from.as_str(), "--to", to.as_str()];
        let all = [base.as_slice(), &chosen, &renamed].concat();
        let follower = Follower::start(&all);
        wait_for(&target, "following");
        let late = client.database("b").collection("late");
        late.insert_one(doc! { "_id": 1 }).await.unwrap();
        let other = client.database("c").collection("late");
        other.insert_one(doc! { "_id": 1 }).await.unwrap();
        run_quarry(&["cutover", "--to", &to, "--fence"]);
        assert_eq!(follower.status(), Some(0));
        let there = target.client().await;
        let mut names = Vec::new();
        for db in there.list_database_names().await.unwrap() {
            let db = there.database(&db);
            let all = db.list_collection_names().await.unwrap();
            names.extend(all.into_iter().map(|coll| format!("{}.{coll}", db.name())));
        }
        names.retain(|ns| {
            !["admin", "config", "local", "quarry_follow"]
                .iter()
                .any(|db| ns.starts_with(db))
        });
        names.sort();
        assert_eq!(names, ["a.y", "d.z", "e.late", "e.x"]);
        // The source stays fenced.
        assert!(late.insert_one(doc! { "_id": 2 }).await.is_err());
    });
}

#[test]
fn it_is_stopped_and_goes_on() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let client = source.client().await;
        fill(&client, 5000).await;
        let (from, to) = (source.uri(), target.uri());
        let slow = [from.as_str(), "--to", to.as_str(), "--rate", "200K"];
        let follower = Follower::start(&slow);
        wait_for(&target, "copying");
        // In the middle of the copy.
        run_quarry(&["stop", "--to", &to]);
        assert_eq!(follower.status(), Some(0));
        assert_eq!(status(&target).get_str("phase").unwrap(), "copying");
        let other = command_error(&[&from, "--to", &to, "--exclude", "shop.ring"]);
        assert!(other.contains("was started with"), "{other}");
        let early = command_error(&["cutover", "--to", &to, "--fence"]);
        assert!(early.contains("start it again"), "{early}");
        let follower = Follower::start(&[&from, "--to", &to]);
        wait_for(&target, "following");
        let second = command_error(&[&from, "--to", &to]);
        assert!(second.contains("running for this target"), "{second}");
        let pid = rustix::process::Pid::from_child(follower.child.as_ref().unwrap());
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(follower.status(), Some(0));
    });
}

#[test]
fn an_unsupported_source_and_a_filled_target_are_refused_before_the_copy() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let (client, there) = (source.client().await, target.client().await);
        let db = client.database("d");
        run(
            &db,
            doc! { "create": "s", "timeseries": { "timeField": "t" } },
        )
        .await;
        db.collection("x")
            .insert_one(doc! { "_id": 1 })
            .await
            .unwrap();
        let mine = there.database("d").collection("x");
        mine.insert_one(doc! { "_id": "mine" }).await.unwrap();
        let (from, to) = (source.uri(), target.uri());
        let line = command_error(&[&from, "--to", &to, "--reverse"]);
        for part in [
            "d.s is a time-series collection",
            "the target has d.x already",
        ] {
            assert!(line.contains(part), "{line}");
        }
        assert_eq!(
            mine.find_one(doc! {}).await.unwrap(),
            Some(doc! { "_id": "mine" })
        );
        let alone = Node::start(&["--standalone"]);
        let line = command_error(&[&alone.uri(), "--to", &to]);
        assert!(line.contains("neither a replica set"), "{line}");
    });
}

#[test]
fn altered_documents_are_found_and_mended() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let (client, there) = (source.client().await, target.client().await);
        fill(&client, 5000).await;
        let (from, to) = (source.uri(), target.uri());
        let mut follower = Follower::start(&[&from, "--to", &to]);
        wait_for(&target, "following");
        end(follower.child.take());
        let orders = there.database("shop").collection::<Document>("orders");
        let kinds = there.database("shop").collection::<Document>("kinds");
        let one = doc! { "$set": { "pad": "altered" } };
        orders.update_one(doc! { "_id": 700 }, one).await.unwrap();
        orders.delete_one(doc! { "_id": 4999 }).await.unwrap();
        orders.insert_one(doc! { "_id": "mine" }).await.unwrap();
        kinds.delete_one(doc! { "_id": "a" }).await.unwrap();
        // Removes the result of earlier comparisons.
        let state = there
            .database("quarry_follow")
            .collection::<Document>("state");
        let forget = doc! { "$unset": { "verified": 1 } };
        state.update_one(doc! {}, forget).await.unwrap();
        follower.run();
        run_quarry(&["cutover", "--to", &to, "--source-is-quiet"]);
        assert_eq!(follower.status(), Some(0));
        assert_same(&client, &there, "shop").await;
        let status = status(&target);
        let findings = status.get_array("findings").unwrap();
        let mut found: Vec<String> = { findings.iter() }
            .map(|f| f.as_document().unwrap())
            .map(|f| {
                let text = |name| f.get_str(name).unwrap();
                format!(
                    "{} {} {}",
                    text("namespace"),
                    f.get("id").unwrap(),
                    text("what")
                )
            })
            .collect();
        found.sort();
        let expected = [
            "shop.kinds \"a\" missing",
            "shop.orders \"mine\" extra",
            "shop.orders 4999 missing",
            "shop.orders 700 different",
        ];
        assert_eq!(found, expected);
    });
}

#[test]
fn a_rename_that_an_end_cut_off_is_finished() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let (client, there) = (source.client().await, target.client().await);
        let rename = async |client: &Client, from: &str, to: &str| {
            let command = doc! { "renameCollection": format!("shop.{from}"),
            "to": format!("shop.{to}"), "dropTarget": true };
            run(&client.database("admin"), command).await;
        };
        let db = client.database("shop");
        for name in ["a", "b"] {
            let coll = db.collection(name);
            coll.insert_one(doc! { "_id": name }).await.unwrap();
        }
        let (from, to) = (source.uri(), target.uri());
        let follower = Follower::start(&[&from, "--to", &to]);
        wait_for(&target, "following");
        run_quarry(&["stop", "--to", &to]);
        assert_eq!(follower.status(), Some(0));
        // The state after an interruption between the rename in the target and its note.
        rename(&there, "a", "c").await;
        let kept = there
            .database("quarry_follow")
            .collection::<Document>("collections");
        let intent = doc! { "$set": { "moving": "shop.c" } };
        kept.update_one(doc! { "target": "shop.a" }, intent)
            .await
            .unwrap();
        rename(&client, "a", "c").await;
        rename(&client, "b", "c").await;
        let follower = Follower::start(&[&from, "--to", &to]);
        wait_for(&target, "following");
        run_quarry(&["cutover", "--to", &to, "--source-is-quiet"]);
        assert_eq!(follower.status(), Some(0));
        assert_same(&client, &there, "shop").await;
    });
}

#[test]
fn no_line_has_a_password() {
    let target = Node::start(&[]);
    for wrong in [
        "mongodb://u:s3cret@127.0.0.1:1/",
        "mongodb://u:s3cret@127.0.0.1:port/",
        "mongodb://u:s3cret/x@127.0.0.1/",
        "mongodb://u:s3cret@127.0.0.1/?w=no&x",
    ] {
        let line = command_error(&[wrong, "--to", &target.uri()]);
        assert!(!line.contains("s3cret"), "{line}");
        let line = command_error(&["status", "--to", wrong]);
        assert!(!line.contains("s3cret"), "{line}");
    }
}

/// One command in two hundred ended with a panic of a client whose threads were still running.
#[test]
fn a_command_that_ends_says_nothing_of_its_threads() {
    let (source, target) = (Node::start(&[]), Node::start(&[]));
    let _follower = Follower::start(&[&source.uri(), "--to", &target.uri()]);
    wait_for(&target, "following");
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..60).for_each(|_| drop(status(&target))));
        }
    });
}
