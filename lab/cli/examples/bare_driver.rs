//! Makes the same calls as the lab with only the official driver. The lab's CPU beyond that of this
//! program is the lab's own cost.
//!
//! `bare_driver URI DATABASE COLLECTION point|update-inc ROWS CLIENTS RATE SECONDS`, on data that
//! the lab's workload of the same name has loaded.

// The output is the result of this program.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use metrics::ProcessSampler;
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};

/// The first calls are not counted: they open connections and fill caches.
const WARMUP: Duration = Duration::from_secs(5);

struct Arguments {
    uri: String,
    database: String,
    collection: String,
    is_update: bool,
    rows: i64,
    clients: u32,
    rate: f64,
    time: Duration,
}

fn parse_arguments() -> Option<Arguments> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [
        uri,
        database,
        collection,
        kind,
        rows,
        clients,
        rate,
        seconds,
    ] = &words[..]
    else {
        return None;
    };
    Some(Arguments {
        uri: uri.clone(),
        database: database.clone(),
        collection: collection.clone(),
        is_update: match kind.as_str() {
            "point" => false,
            "update-inc" => true,
            _ => return None,
        },
        rows: rows.parse().ok().filter(|rows| *rows > 0)?,
        clients: clients.parse().ok().filter(|clients| *clients > 0)?,
        rate: rate.parse().ok().filter(|rate| *rate > 0.0)?,
        time: Duration::from_secs(seconds.parse().ok()?),
    })
}

async fn client(
    table: Collection<RawDocumentBuf>,
    number: u32,
    given: &'static Arguments,
    begun: Instant,
) -> mongodb::error::Result<u64> {
    let gap = f64::from(given.clients) / given.rate;
    let (mut calls, mut random) = (0_u64, 0x9e37_79b9_7f4a_7c15_u64 ^ (u64::from(number) << 32));
    loop {
        let turn = Duration::from_secs_f64(
            gap * (calls as f64 + f64::from(number) / f64::from(given.clients)),
        );
        if turn >= WARMUP + given.time {
            return Ok(calls);
        }
        let now = begun.elapsed();
        if now < turn {
            tokio::time::sleep(turn - now).await;
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let id = i64::try_from(random >> 1).unwrap_or(0) % given.rows + 1;
        if given.is_update {
            table
                .update_one(doc! { "_id": id }, doc! { "$inc": { "k": 1 } })
                .await?;
        } else {
            table.find_one(doc! { "_id": id }).await?;
        }
        calls += 1;
    }
}

async fn run(given: &'static Arguments) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut options = ClientOptions::parse(&given.uri).await?;
    options.retry_writes = Some(false);
    options.retry_reads = Some(false);
    options.max_pool_size = Some(given.clients + 4);
    let table = Client::with_options(options)?
        .database(&given.database)
        .collection(&given.collection);
    let begun = Instant::now();
    let tasks: Vec<_> = (0..given.clients)
        .map(|number| tokio::spawn(client(table.clone(), number, given, begun)))
        .collect();
    tokio::time::sleep(WARMUP).await;
    let mut sampler = ProcessSampler::of_self()?;
    let (first, from) = (sampler.sample()?, Instant::now());
    let mut calls = 0;
    for task in tasks {
        calls += task.await??;
    }
    let used = sampler.sample()?.delta_since(&first);
    let share = used.cpu().as_secs_f64() / from.elapsed().as_secs_f64();
    // If the server cannot keep up, the program takes longer, and the rate is lower than requested.
    let rate = calls as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{calls} calls in {:.1} s; from second {} on: {:.2} % of a core, {:.2} µs per call at \
            {rate:.0} calls/s; {} MiB resident",
        begun.elapsed().as_secs_f64(),
        WARMUP.as_secs(),
        share * 100.0,
        share * 1e6 / rate,
        used.rss_bytes >> 20
    );
    Ok(())
}

fn main() -> ExitCode {
    let Some(given) = parse_arguments() else {
        eprintln!("bare_driver URI DATABASE COLLECTION point|update-inc ROWS CLIENTS RATE SECONDS");
        return ExitCode::from(2);
    };
    let given: &'static Arguments = Box::leak(Box::new(given));
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(run(given)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare_driver: {error}");
            ExitCode::FAILURE
        }
    }
}
