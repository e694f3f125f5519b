//! The comparison of `quarry follow`: no alteration of the target passes a cut-over, and no change
//! on its way counts as a difference.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};

use super::load::fill;
use super::world::{
    Follower, Node, assert_same, output_text, run, run_quarry, runtime, status, wait_for,
};

fn wait_for_pass(target: &Node) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !status(target).contains_key("verified") {
        assert!(Instant::now() < deadline, "nothing was compared");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn findings(target: &Node) -> Vec<String> {
    let status = status(target);
    let findings = status.get_array("findings").unwrap();
    let all = findings.iter().map(|f| f.as_document().unwrap());
    let mut found: Vec<String> = all
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
    found
}

#[test]
fn a_document_altered_after_everything_was_compared_is_found_at_the_cut_over() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let (client, there) = (source.client().await, target.client().await);
        fill(&client, 5000).await;
        let follower = Follower::start(&[&source.uri(), "--to", &target.uri()]);
        wait_for(&target, "following");
        wait_for_pass(&target);
        // The number of documents stays the same.
        let orders = there.database("shop").collection::<Document>("orders");
        let one = doc! { "$set": { "pad": "altered" } };
        orders.update_one(doc! { "_id": 700 }, one).await.unwrap();
        orders.delete_one(doc! { "_id": 4999 }).await.unwrap();
        orders.insert_one(doc! { "_id": "mine" }).await.unwrap();
        let report = run_quarry(&["cutover", "--to", &target.uri(), "--source-is-quiet"]);
        assert_eq!(follower.status(), Some(0));
        assert_same(&client, &there, "shop").await;
        let expected = [
            "shop.orders \"mine\" extra",
            "shop.orders 4999 missing",
            "shop.orders 700 different",
        ];
        assert_eq!(findings(&target), expected);
        assert!(report.contains("3 of them differed"), "{report}");
    });
}

#[test]
fn a_document_that_is_removed_and_put_back_is_no_finding() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let client = source.client().await;
        let db = client.database("shop");
        let collation = doc! { "locale": "en", "strength": 2 };
        run(&db, doc! { "create": "folded", "collation": collation }).await;
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let folded = db.collection::<Document>("folded");
        let writer = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                folded.delete_many(doc! {}).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
                let all = (0..20).map(|n| doc! { "_id": format!("a{n}") });
                folded.insert_many(all).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let follower = Follower::start(&[&source.uri(), "--to", &target.uri()]);
        wait_for(&target, "following");
        wait_for_pass(&target);
        stop.store(true, Ordering::Relaxed);
        writer.await.unwrap();
        assert_eq!(findings(&target), [""; 0]);
        run_quarry(&["cutover", "--to", &target.uri(), "--source-is-quiet"]);
        assert_eq!(follower.status(), Some(0));
        assert_eq!(findings(&target), [""; 0]);
        assert_same(&client, &target.client().await, "shop").await;
    });
}

#[test]
fn a_source_that_does_not_answer_is_named_at_once() {
    let target = Node::start(&[]);
    let mut command = super::world::quarry(&["mongodb://127.0.0.1:1/", "--to", &target.uri()]);
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    // A user who stops it early is told why nothing happened.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let _ = child.wait();
    let said = output_text(&child.wait_with_output().unwrap());
    assert!(
        said.contains("the source 127.0.0.1:1 has not answered yet"),
        "{said}"
    );
    let line = super::world::command_error(&["mongodb://127.0.0.1:1/", "--to", &target.uri()]);
    assert!(
        line.contains("the source: 127.0.0.1:1 does not answer"),
        "{line}"
    );
    assert!(!line.contains("Topology"), "{line}");
}
