//! The Rust quick start that `docs/quickstarts.md` shows; a test runs it.

use mongodb::bson::{Document, doc};
use mongodb::{Client, IndexModel};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().nth(1);
    let uri = given.unwrap_or_else(|| "mongodb://127.0.0.1:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let birds = client.database("rust").collection::<Document>("birds");
    birds
        .insert_many([
            doc! { "_id": 1, "name": "wren", "g": 9 },
            doc! { "_id": 2, "name": "robin", "g": 18 },
            doc! { "_id": 3, "name": "jay", "g": 170 },
        ])
        .await?;
    let by_weight = IndexModel::builder().keys(doc! { "g": 1 }).build();
    birds.create_index(by_weight).await?;
    let mut light = birds
        .find(doc! { "g": { "$lt": 100 } })
        .sort(doc! { "g": -1 })
        .await?;
    while light.advance().await? {
        println!("{}", light.deserialize_current()?.get_str("name")?);
    }
    let change = doc! { "$inc": { "g": 5 } };
    let changed = birds.update_one(doc! { "name": "jay" }, change).await?;
    println!("{}", changed.modified_count);
    Ok(())
}
