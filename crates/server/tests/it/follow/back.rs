//! The way back: after a cut-over with `--reverse` the source follows the target, through a kill of
//! the follower, until it is cut over in turn.

use mongodb::bson::doc;

use super::load::{fill, write_round};
use super::world::{
    Follower, Node, assert_same, command_error, run_quarry, runtime, status, wait_for,
};

#[test]
fn a_source_is_fed_from_the_target_until_it_is_cut_over_back() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let (client, there) = (source.client().await, target.client().await);
        fill(&client, 3000).await;
        let other = there.database("other").collection("mine");
        other.insert_one(doc! { "_id": 1 }).await.unwrap();
        let (from, to) = (source.uri(), target.uri());
        let mut follower = Follower::start(&[&from, "--to", &to, "--reverse"]);
        wait_for(&target, "following");
        for round in 0..10 {
            write_round(&client, round).await.unwrap();
        }
        run_quarry(&["cutover", "--to", &to, "--fence"]);
        wait_for(&source, "following");
        // Exchanges of unique keys, renames, indexes, views: now on the other side.
        for round in 10..25 {
            write_round(&there, round).await.unwrap();
        }
        follower.kill();
        for round in 25..40 {
            write_round(&there, round).await.unwrap();
        }
        run_quarry(&["cutover", "--to", &from, "--source-is-quiet"]);
        assert_eq!(follower.status(), Some(0));
        assert_same(&there, &client, "shop").await;
        assert_eq!(status(&source).get_array("findings").unwrap().len(), 0);
        // Other collections of the target are not copied back.
        let names = client.list_database_names().await.unwrap();
        assert!(!names.contains(&"other".to_owned()), "{names:?}");
        // The source accepts writes again.
        write_round(&client, 40).await.unwrap();
    });
}

#[test]
fn a_way_back_needs_a_target_that_tells_its_changes() {
    let (source, target) = (Node::start(&[]), Node::start(&["--standalone"]));
    let line = command_error(&[&source.uri(), "--to", &target.uri(), "--reverse"]);
    assert!(line.contains("reports no changes"), "{line}");
}
