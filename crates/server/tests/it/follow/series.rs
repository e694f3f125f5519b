//! Data that no change stream reports is copied at the cut-over: time-series collections, stored
//! functions.

use mongodb::bson::{Document, doc};

use super::world::{Follower, Node, list, run, run_quarry, runtime, wait_for};

#[test]
fn time_series_and_stored_functions_come_at_the_cut_over() {
    runtime().block_on(async {
        let (source, target) = (Node::start(&[]), Node::start(&[]));
        let (client, there) = (source.client().await, target.client().await);
        let db = client.database("d");
        let options = doc! { "timeField": "at", "metaField": "sensor", "granularity": "minutes" };
        let create = doc! { "create": "weather", "timeseries": options,
        "expireAfterSeconds": 1_000_000_000_i64 };
        run(&db, create).await;
        let index = doc! { "key": { "sensor": 1, "t": 1 }, "name": "warm" };
        let indexes = doc! { "createIndexes": "weather", "indexes": [index] };
        run(&db, indexes).await;
        let measure = |from: i32, to: i32| {
            let all = (from..to).map(|n| {
                let at =
                    mongodb::bson::DateTime::from_millis(1_800_000_000_000 + i64::from(n) * 1000);
                doc! { "_id": n % 1500, "at": at, "sensor": n % 7, "t": f64::from(n) / 10.0 }
            });
            all.collect::<Vec<Document>>()
        };
        let weather = db.collection::<Document>("weather");
        weather.insert_many(measure(0, 2000)).await.unwrap();
        let functions = db.collection::<Document>("system.js");
        let twice = doc! { "_id": "twice", "value": mongodb::bson::Bson::JavaScriptCode(
        "function(x) { return 2 * x }".to_owned()) };
        functions.insert_one(&twice).await.unwrap();
        db.collection("plain")
            .insert_one(doc! { "_id": 1 })
            .await
            .unwrap();
        let follower = Follower::start(&[&source.uri(), "--to", &target.uri()]);
        wait_for(&target, "following");
        // No change stream reports these writes.
        weather.insert_many(measure(2000, 2500)).await.unwrap();
        let report = run_quarry(&["cutover", "--to", &target.uri(), "--source-is-quiet"]);
        assert_eq!(follower.status(), Some(0));
        assert!(report.contains("d.weather: 2500 documents"), "{report}");
        let copy = there.database("d");
        let all = doc! { "find": "weather", "sort": { "at": 1 } };
        assert_eq!(list(&db, all.clone()).await, list(&copy, all).await);
        let filter = doc! { "listCollections": 1, "filter": { "name": "weather" } };
        let options = |d: &Document| d.get_document("options").unwrap().clone();
        let (mine, other) = (list(&db, filter.clone()).await, list(&copy, filter).await);
        assert_eq!(options(&mine[0]), options(&other[0]));
        let indexes = doc! { "listIndexes": "weather" };
        assert_eq!(list(&db, indexes.clone()).await, list(&copy, indexes).await);
        let kept = copy.collection::<Document>("system.js");
        assert_eq!(kept.find_one(doc! {}).await.unwrap(), Some(twice));
    });
}
