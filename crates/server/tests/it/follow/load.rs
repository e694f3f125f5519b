//! Collections of every kind, and a writer that changes documents, names, indexes and views.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, Timestamp, doc};
use mongodb::{Client, Database};

use super::world::{Node, run};

/// Collections of every kind.
pub(crate) async fn fill(client: &Client, documents: i32) {
    let db = client.database("shop");
    let pad = "x".repeat(200);
    for from in (0..documents).step_by(1000) {
        let some = from..(from + 1000).min(documents);
        let some = some.map(|n| doc! { "_id": n, "u": n, "g": n % 10, "pad": &pad });
        db.collection("orders").insert_many(some).await.unwrap();
    }
    let ids = [
        Bson::Int32(1),
        Bson::Double(2.5),
        Bson::String("a".to_owned()),
        Bson::ObjectId(ObjectId::new()),
        Bson::Boolean(true),
        Bson::DateTime(DateTime::from_millis(7)),
        Bson::Document(doc! { "a": 1, "b": [2] }),
        Bson::Null,
        Bson::Timestamp(Timestamp {
            time: 3,
            increment: 4,
        }),
    ];
    let of_kinds = { ids.into_iter().enumerate() }.map(|(n, id)| doc! { "_id": id, "n": n as i32 });
    db.collection("kinds").insert_many(of_kinds).await.unwrap();
    let indexes = [
        doc! { "key": { "u": 1 }, "name": "u_1", "unique": true },
        doc! { "key": { "g": 1, "u": -1 }, "name": "g",
        "partialFilterExpression": { "g": { "$gt": 3 } } },
        doc! { "key": { "at": 1 }, "name": "ttl", "expireAfterSeconds": 3600 },
        doc! { "key": { "pad": "hashed" }, "name": "h" },
        doc! { "key": { "t": "text" }, "name": "t", "weights": { "t": 3 } },
        doc! { "key": { "$**": 1 }, "name": "w", "wildcardProjection": { "g": 1 } },
        doc! { "key": { "s": 1 }, "name": "s", "sparse": true,
        "collation": { "locale": "en", "strength": 2 } },
    ];
    run(
        &db,
        doc! { "createIndexes": "orders", "indexes": indexes.to_vec() },
    )
    .await;
    let validator = doc! { "n": { "$gte": 0 } };
    for create in [
        doc! { "create": "ring", "capped": true, "size": 8192, "max": 20 },
        doc! { "create": "checked", "validator": validator, "validationAction": "warn" },
        doc! { "create": "folded", "collation": { "locale": "en", "strength": 2 } },
        doc! { "create": "clustered", "clusteredIndex": { "key": { "_id": 1 }, "unique": true } },
        doc! { "create": "imaged", "changeStreamPreAndPostImages": { "enabled": true } },
        doc! { "create": "big", "viewOn": "orders",
        "pipeline": [{ "$match": { "g": { "$gt": 5 } } }] },
    ] {
        run(&db, create).await;
    }
    for name in ["ring", "checked", "clustered", "imaged"] {
        let some = (0..30)
            .map(|n| doc! { "_id": n, "n": n, "empty": Timestamp { time: 0, increment: 0 } });
        db.collection(name).insert_many(some).await.unwrap();
    }
    let some = ["a", "b", "C"].map(|id| doc! { "_id": id });
    db.collection("folded").insert_many(some).await.unwrap();
    // The chunks of a GridFS file.
    let file = ObjectId::new();
    let about = doc! { "_id": file, "length": 600_000, "chunkSize": 261_120, "filename": "f" };
    db.collection("fs.files").insert_one(about).await.unwrap();
    let chunks = (0..3).map(|n| {
        let data = mongodb::bson::Binary {
            subtype: mongodb::bson::spec::BinarySubtype::Generic,
            bytes: vec![n as u8; 200_000],
        };
        doc! { "files_id": file, "n": n, "data": data }
    });
    let chunk = db.collection::<Document>("fs.chunks");
    chunk.insert_many(chunks).await.unwrap();
    let index = doc! { "key": { "files_id": 1, "n": 1 }, "name": "chunks", "unique": true };
    run(
        &db,
        doc! { "createIndexes": "fs.chunks", "indexes": [index] },
    )
    .await;
}

/// Writes of all kinds, with renames and index changes in between, until it is ended.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<i32>,
}

impl Writer {
    pub(crate) async fn start(node: &Node) -> Writer {
        let stop = Arc::<AtomicBool>::default();
        let (stopped, client) = (Arc::clone(&stop), node.client().await);
        let task = tokio::spawn(async move {
            let mut rounds = 0;
            while !stopped.load(Ordering::Relaxed) {
                // A round that is interrupted by a kill of the source is repeated.
                match write_round(&client, rounds).await {
                    Ok(()) => rounds += 1,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
            rounds
        });
        Writer { stop, task }
    }

    pub(crate) async fn end(self) -> i32 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

pub(crate) async fn write_round(client: &Client, round: i32) -> mongodb::error::Result<()> {
    let db = client.database("shop");
    let orders = db.collection::<Document>("orders");
    let (a, b) = (round * 7 % 500, round * 13 % 500 + 500);
    // Two documents exchange a unique key, repeatedly.
    for (id, u) in [(a, -1), (b, a), (a, b), (b, -1), (a, a), (b, b)] {
        let u = if u < 0 { -1 - round } else { u };
        let to = doc! { "$set": { "u": u, "round": round } };
        orders.update_one(doc! { "_id": id }, to).await?;
    }
    let new = 1_000_000 + round;
    let document = doc! { "_id": new, "u": new, "g": 4 };
    orders
        .replace_one(doc! { "_id": new }, document)
        .upsert(true)
        .await?;
    let twice = [
        doc! { "$unset": "g" },
        doc! { "$set": { "z": "$u", "g": { "a": [1, 2] } } },
    ];
    orders
        .update_one(doc! { "_id": new - 3 }, twice.to_vec())
        .await?;
    orders.delete_one(doc! { "_id": new - 9 }).await?;
    let ring = db.collection::<Document>("ring");
    let entry = doc! { "$set": { "n": round } };
    ring.update_one(doc! { "_id": 1000 + round }, entry)
        .upsert(true)
        .await?;
    let folded = db.collection::<Document>("folded");
    folded.delete_one(doc! { "_id": "a" }).await?;
    folded
        .insert_one(doc! { "_id": (if round % 2 == 0 { "a" } else { "A" }) })
        .await?;
    if round % 5 == 0 {
        change_names(&db, round / 5).await?;
    }
    Ok(())
}

pub(crate) async fn change_names(db: &Database, round: i32) -> mongodb::error::Result<()> {
    let admin = db.client().database("admin");
    let name = |n: i32| format!("moving{}", n % 3);
    let (from, to) = (name(round), name(round + 1));
    let here = db.collection::<Document>(&from);
    here.insert_one(doc! { "round": round }).await?;
    here.update_many(doc! {}, doc! { "$inc": { "moves": 1 } })
        .await?;
    let rename = doc! { "renameCollection": format!("shop.{from}"), "to": format!("shop.{to}"),
    "dropTarget": true };
    admin.run_command(rename).await?;
    let short = db.collection::<Document>("short");
    short.drop().await?;
    short
        .insert_many((0..20).map(|n| doc! { "_id": n, "round": round }))
        .await?;
    if round % 2 == 0 {
        let gone = doc! { "dropIndexes": &to, "index": "*" };
        db.run_command(gone).await?;
    }
    let number = round % 3;
    let index = doc! { "key": { format!("k{number}"): 1 }, "name": format!("r{number}"),
    "hidden": true };
    db.run_command(doc! { "createIndexes": &to, "indexes": [index] })
        .await?;
    let validator = doc! { "n": { "$gte": round } };
    db.run_command(doc! { "collMod": "checked", "validator": validator })
        .await?;
    db.collection::<Document>("view").drop().await?;
    let view = doc! { "create": "view", "viewOn": "orders",
    "pipeline": [{ "$match": { "u": { "$gt": round } } }] };
    db.run_command(view).await?;
    Ok(())
}
